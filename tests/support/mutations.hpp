#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace adjoin::test {

/// Changes of a JSON file, as damage or a careless hand makes them.
class Mutations {
 public:
  explicit Mutations(uint64_t seed) : random_(seed) {}

  std::string of(const std::string& text) {
    std::string changed = below(2) == 0 ? with_another_value(text) : text;
    return changed == text ? with_other_bytes(changed) : changed;
  }
  /// The same of any file.
  std::string with_other_bytes(std::string text) {
    for (size_t times = 1 + below(3); times > 0; --times) change_bytes(text);
    return text;
  }

 private:
  size_t below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }

  void change_bytes(std::string& text) {
    const size_t place = below(text.size()), count = std::min(text.size() - place, 1 + below(12));
    switch (below(4)) {
      case 0:
        text[place] = static_cast<char>(text[place] ^ (1 << below(8)));
        break;
      case 1:
        text.erase(place, count);
        break;
      case 2:
        text.insert(place, text.substr(below(text.size()), count));
        break;
      default:
        text.insert(place, std::string(count, "09-.eE\"{}[],:\0 \xff"[below(17)]));
        break;
    }
    if (text.empty()) text = " ";
  }

  /// The same with one value, which may be an object or a list, replaced.
  std::string with_another_value(const std::string& text) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(text);
    std::vector<nlohmann::ordered_json*> values;
    collect(json, values);
    static const char* const kOthers[] = {"0",
                                          "1",
                                          "2",
                                          "3",
                                          "7",
                                          "-1",
                                          "-2147483649",
                                          "40",
                                          "16777216",
                                          "4294967296",
                                          "9223372036854775807",
                                          "18446744073709551615",
                                          "1e300",
                                          "-1e300",
                                          "1e-300",
                                          "0.5",
                                          "\"\"",
                                          "\"12\"",
                                          "\"../x\"",
                                          "\"a\\u0000b\"",
                                          "null",
                                          "true",
                                          "false",
                                          "[]",
                                          "{}",
                                          "[1,2]",
                                          "{\"0\":\"a\"}",
                                          "10000"};
    *values[below(values.size())] = nlohmann::ordered_json::parse(kOthers[below(std::size(kOthers))]);
    return json.dump(1);
  }
  static void collect(nlohmann::ordered_json& json, std::vector<nlohmann::ordered_json*>& values) {
    for (nlohmann::ordered_json& value : json) {
      values.push_back(&value);
      if (value.is_structured()) collect(value, values);
    }
  }

  std::mt19937_64 random_;
};

/// The most memory that this process has had.
inline int64_t most_bytes_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

}  // namespace adjoin::test
