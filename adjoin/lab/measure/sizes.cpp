#include "adjoin/lab/measure/sizes.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "adjoin/base/error.hpp"

namespace adjoin::measure {

int64_t bytes_from(std::string_view text) {
  constexpr std::string_view units = "KMG";
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  const size_t power = unit.empty() ? 0 : units.find(unit[0]) + 1;  // npos + 1 is 0
  const int64_t scale = int64_t{1} << (10 * power);
  if (error != std::errc() || unit.size() > 1 || (unit.size() == 1 && power == 0) || number < 1 ||
      number > std::numeric_limits<int64_t>::max() / scale)
    throw InvalidArgument("expected a size such as 64, 4K, 1M or 2G, got '" + std::string(text) + "'");
  return number * scale;
}

std::vector<int64_t> sizes_from(std::string_view list) {
  std::vector<int64_t> sizes;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    sizes.push_back(bytes_from(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  return sizes;
}

std::string text_of_bytes(int64_t bytes) {
  constexpr const char* units[] = {" B", " KiB", " MiB", " GiB"};
  int unit = 0;
  for (; unit < 3 && bytes >= 1024 && bytes % 1024 == 0; ++unit) bytes /= 1024;
  return std::to_string(bytes) + units[unit];
}

}  // namespace adjoin::measure
