#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace adjoin {

/// 1234567 -> "1,234,567".
std::string grouped(int64_t number);

/// "1 head", "1,000 heads"; `many` where more than one is not the thing with an s: "2 boxes".
std::string counted(int64_t number, const std::string& thing, const std::string& many = "");

/// A number in as few digits as tell it from all others.
std::string shortest_text(double number);

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

/// "rank 3", "ranks 0, 2-5".
std::string ranks_text(std::span<const int> ranks);

}  // namespace adjoin
