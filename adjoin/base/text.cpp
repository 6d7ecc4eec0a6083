#include "adjoin/base/text.hpp"

#include <charconv>

namespace adjoin {

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  const std::ptrdiff_t sign = number < 0 ? 1 : 0;
  for (auto at = std::ssize(text) - 3; at > sign; at -= 3) text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

std::string counted(int64_t number, const std::string& thing, const std::string& many) {
  return grouped(number) + " " + (number == 1 ? thing : many.empty() ? thing + "s" : many);
}

std::string shortest_text(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

std::string ranges_text(std::span<const int> numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string ranks_text(std::span<const int> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + ranges_text(ranks);
}

}  // namespace adjoin
