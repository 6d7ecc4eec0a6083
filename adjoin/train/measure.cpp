#include "adjoin/train/measure.hpp"

#include <algorithm>
#include <cstdio>

namespace adjoin::train {

std::string spoken(const Measure& measure) {
  std::string words = measure.name;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string to_string(const Measure& measure) {
  char text[400];  // a double has up to 309 digits before the point
  std::snprintf(text, sizeof text, measure.is_part ? "%.2f %%" : "%.4f",
                measure.is_part ? 100 * measure.value : measure.value);
  return text;
}

}  // namespace adjoin::train
