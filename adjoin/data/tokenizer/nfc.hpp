#pragma once

#include <string>
#include <string_view>

namespace adjoin::data {

/// A text in Normalization Form C of Unicode 9.0, the version in the tokenizers package 0.23: later characters stay unchanged,
/// and so do bytes that are not UTF-8.
/// Cost: n log n for n marks on one character
/// Source: Unicode Standard Annex 15, with the tables of utf8proc.
std::string nfc(std::string_view text);

}  // namespace adjoin::data
