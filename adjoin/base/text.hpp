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

/// "1 head", "1,000 heads"; `many` where more than one is not the thing with an s: "2 boxes".
std::string counted(int64_t number, const std::string& thing, const std::string& many = "");

/// A number with so many digits after its point.
std::string fixed(double number, int digits);

/// "0 s", "850 ns", "12.5 us", "3.07 ms", "1.2 s": three digits.
std::string text_of_seconds(double seconds);

/// 16 hexadecimal digits.
std::string hexadecimal(uint64_t number);

/// A number in as few digits as tell it from all others.
std::string shortest_text(double number);

/// The number that a text is, int64_t or double: one decimal number and nothing else.
/// Throws: InvalidArgument that names what it is of
template <class Number>
Number number_from(std::string_view text, const std::string& name);

/// What lies between the separators: "a,b" are "a" and "b", "" is one that is empty.
std::vector<std::string_view> parts_of(std::string_view text, char separator = ',');

/// "a, b, c": texts or whole numbers, with something between them.
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

/// "0, 2-5, 9": numbers that increase by one are a range.
std::string ranges_text(std::span<const int> numbers);
/// The same, shorter where it is long and no range: "0 3 .. 897".
std::string short_ranges_text(std::span<const int> numbers);

/// Rows of texts, a line each, in columns two spaces apart. `sides` says at which side a column's texts stand under each
/// other, "lr" at the left and then at the right; the last letter counts for all further columns. Columns that would pass
/// `page` characters go on below, indented.
std::string table_text(const std::vector<std::vector<std::string>>& rows, std::string_view sides,
                       size_t page = std::string::npos);

/// "rank 3", "ranks 0, 2-5".
std::string ranks_text(std::span<const int> ranks);

}  // namespace adjoin
