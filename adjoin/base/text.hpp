#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace adjoin {

/// 1234567 -> "1,234,567".
std::string grouped(int64_t number);

/// "1 head", "1,000 heads"; `many` is the plural where it is not `thing` with an s: "2 boxes".
std::string counted(int64_t number, const std::string& thing, const std::string& many = "");

/// A number with `digits` digits after its decimal point.
std::string fixed(double number, int digits);

/// "0 s", "850 ns", "12.5 us", "3.07 ms", "1.2 s": three significant digits.
std::string text_of_seconds(double seconds);

/// 16 hexadecimal digits.
std::string hexadecimal(uint64_t number);

/// The shortest text that reads back as the same number.
std::string shortest_text(double number);

/// Parses an int64_t or a double: one decimal number and nothing else.
/// Throws: InvalidArgument that calls the value `name`
template <class Number>
Number number_from(std::string_view text, const std::string& name);

/// The parts between the separators: "a,b" gives "a" and "b", "" gives one empty part.
std::vector<std::string_view> parts_of(std::string_view text, char separator = ',');

/// The text without the blanks around it.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t");

/// The items of a list as people write it: between commas, without the blanks around them.
std::vector<std::string_view> items_of(std::string_view text);

/// "1st", "2nd", "3rd", "4th" … for 0, 1, 2, 3 …: which of several it is, for those who count from 0 and those who count from 1.
std::string ordinal(int64_t index);

/// "a, b, c": texts or whole numbers, with `between` between them.
template <class List>
std::string joined(const List& list, std::string_view between = ", ") {
  std::string text;
  for (const auto& item : list) {
    if (&item != &*std::begin(list)) text += between;
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(item)>>)
      text += std::to_string(item);
    else
      text += item;
  }
  return text;
}

/// "a, b or c".
std::string alternatives(std::span<const std::string_view> names);

/// "0, 2-5, 9": consecutive numbers are written as a range.
std::string ranges_text(std::span<const int> numbers);
/// The same, shortened where it is long and not a range: "0 3 .. 897".
std::string short_ranges_text(std::span<const int> numbers);

/// Rows of texts, one line each, in columns two spaces apart. `sides` says how each column is aligned: "lr" aligns the first
/// left and the second right; the last letter applies to all further columns. Columns that would pass `page` characters
/// continue below, indented.
std::string table_text(const std::vector<std::vector<std::string>>& rows, std::string_view sides,
                       size_t page = std::string::npos);

/// "rank 3", "ranks 0, 2-5".
std::string ranks_text(std::span<const int> ranks);

}  // namespace adjoin
