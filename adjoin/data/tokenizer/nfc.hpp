#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::data {

/// A text in Normalization Form C of Unicode 9.0, the version in the tokenizers package 0.23: later characters stay unchanged,
/// and so do bytes that are not UTF-8.
/// Cost: n log n for n marks on one character
/// Source: Unicode Standard Annex 15, with the tables of utf8proc.
std::string nfc(std::string_view text);

/// Appends the canonical decomposition of a code point.
void decompose(char32_t point, std::vector<int32_t>& points);

/// The class by which marks on one character are ordered; 0 for what is no such mark.
int combining_class(int32_t point);

/// Puts the marks between other code points into canonical order.
void order_marks(std::vector<int32_t>& points);

}  // namespace adjoin::data
