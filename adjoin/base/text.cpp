#include "adjoin/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin {

std::string hexadecimal(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(number));
  return text;
}

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  const std::ptrdiff_t sign = number < 0 ? 1 : 0;
  for (auto at = std::ssize(text) - 3; at > sign; at -= 3) text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

std::string counted(int64_t number, const std::string& thing, const std::string& many) {
  return grouped(number) + " " + (number == 1 ? thing : many.empty() ? thing + "s" : many);
}

std::string ordinal(int64_t index) {
  const int64_t number = index + 1, last = number % 10;
  const bool is_teen = number / 10 % 10 == 1;
  const char* end = is_teen || last > 3 || last == 0 ? "th" : last == 1 ? "st" : last == 2 ? "nd" : "rd";
  return std::to_string(number) + end;
}

std::string fixed(double number, int digits) {
  char text[400];  // a double has up to 309 digits before the point; a program's locale may have another sign for it
  return {text, std::to_chars(text, text + sizeof text, number, std::chars_format::fixed, digits).ptr};
}

std::string text_of_seconds(double seconds) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}};
  const auto* unit = std::end(kUnits) - 1;
  while (seconds > 0 && seconds < unit->first && unit != kUnits) --unit;
  char text[64];
  std::snprintf(text, sizeof text, "%.3g %s", seconds / unit->first, unit->second);
  return text;
}

std::string shortest_text(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

template <class Number>
Number number_from(std::string_view text, const std::string& name) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size(), [&] {
    return name + " is " + (text.empty() ? "empty" : std::string(text)) + ", expected a " +
           (std::is_integral_v<Number> ? "whole " : "") + "decimal number" +
           (error == std::errc::result_out_of_range ? " of fewer digits" : "");
  });
  return number;
}

template int64_t number_from<int64_t>(std::string_view, const std::string&);
template double number_from<double>(std::string_view, const std::string&);

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

std::vector<std::string_view> items_of(std::string_view text) {
  std::vector<std::string_view> items = parts_of(text, ',');
  for (std::string_view& item : items) item = trimmed(item);
  return items;
}

std::string alternatives(std::span<const std::string_view> names) {
  if (names.size() < 2) return joined(names);
  return joined(names.first(names.size() - 1)) + " or " + std::string(names.back());
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

std::string short_ranges_text(std::span<const int> numbers) {
  constexpr size_t kShort = 12;
  std::string text = ranges_text(numbers);
  if (text.size() <= kShort || numbers.size() <= 3) return text;
  const std::string first = std::to_string(numbers.front()), last = std::to_string(numbers.back());
  const bool is_one_range = numbers.back() - numbers.front() == static_cast<int>(numbers.size()) - 1;
  return is_one_range ? text : first + " " + std::to_string(numbers[1]) + " .. " + last;
}

std::string table_text(const std::vector<std::vector<std::string>>& rows, std::string_view sides, size_t page) {
  const auto width_of = [](const std::string& text) {
    return static_cast<size_t>(std::ranges::count_if(text, [](char byte) { return (byte & 0xc0) != 0x80; }));
  };
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  const auto end_line = [&] { text.erase(text.find_last_not_of(' ') + 1) += '\n'; };
  for (const auto& row : rows) {
    size_t used = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      if (used > 0 && used + 2 + widths[i] > page) end_line(), text += "    ", used = 4;
      const std::string space(widths[i] - width_of(row[i]), ' ');
      text += used > 0 ? "  " : "";
      text += sides[std::min(i, sides.size() - 1)] == 'l' ? row[i] + space : space + row[i];
      used += (used > 0 ? 2 : 0) + widths[i];
    }
    end_line();
  }
  return text;
}

std::string ranks_text(std::span<const int> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + ranges_text(ranks);
}

}  // namespace adjoin
