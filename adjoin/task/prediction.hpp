#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adjoin::train {

/// A text that a model does not read at once.
struct CutText {
  int64_t tokens = 0, at_once = 0;  ///< of the text, and as many as the model reads
  bool goes_on = false;             ///< the rest is read too, separately
};

/// What a model predicts for a text.
struct Prediction {
  std::string label{};               ///< the name of the class, if there are classes
  std::string what = "probability";  ///< the name of the value
  double value = 0;
  std::vector<std::pair<std::string, double>> classes{};  ///< all, the likeliest first, with their probabilities
  std::optional<CutText> cut{};                           ///< where the text was longer than the model reads at once
};

}  // namespace adjoin::train
