#include "adjoin/task/measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace adjoin::train {

std::string spoken(const Measure& measure) {
  std::string words = measure.name;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string to_string(const Measure& measure) {
  char text[64];
  const char* format = measure.is_part ? "%.2f %%" : std::abs(measure.value) < 1e9 ? "%.4f" : "%.4e";
  std::snprintf(text, sizeof text, format, measure.is_part ? 100 * measure.value : measure.value);
  return text;
}

}  // namespace adjoin::train
