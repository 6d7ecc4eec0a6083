#pragma once

#include <string>
#include <string_view>

namespace adjoin::data {

/// A text in Normalization Form C of Unicode 9.0, which is what the tokenizers package 0.23 has: characters that came later
/// stay as they are. Bytes that are not UTF-8 stay too.
/// Cost: n log n for n marks on one character
/// Source: Unicode Standard Annex 15, with the tables of utf8proc.
std::string nfc(std::string_view text);

}  // namespace adjoin::data
