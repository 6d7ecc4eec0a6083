#include "adjoin/lab/measure/sizes.hpp"

#include <charconv>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin::measure {

int64_t bytes_of(std::string_view text, std::string_view option) {
  constexpr std::string_view units = "KMG";
  constexpr int64_t most = int64_t{1} << 50;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  const size_t power = unit.empty() ? 0 : units.find(unit[0]) + 1;  // npos + 1 is 0
  const bool is_unit = unit.empty() || (unit.size() == 1 && power > 0);
  if (error != std::errc() || !is_unit || number < 0 || number > most >> (10 * power) || (number == 0 && text != "0"))
    throw InvalidArgument(std::string(option) + " is " + (text.empty() ? "empty" : std::string(text)) +
                          ", expected a number of bytes such as 512, 4K, 1M or 2G, at most 1048576G");
  return number << (10 * power);
}

std::vector<int64_t> all_bytes_of(std::string_view text, std::string_view option) {
  std::vector<int64_t> bytes;
  for (const std::string_view part : items_of(text)) bytes.push_back(bytes_of(part, option));
  return bytes;
}

std::string text_of_bytes(int64_t bytes) {
  constexpr const char* units[] = {" B", " KiB", " MiB", " GiB"};
  int unit = 0;
  for (; unit < 3 && bytes >= 1024 && bytes % 1024 == 0; ++unit) bytes /= 1024;
  return std::to_string(bytes) + units[unit];
}

}  // namespace adjoin::measure
