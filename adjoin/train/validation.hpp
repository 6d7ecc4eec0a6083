#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace adjoin::train {

/// Training samples, some of which are held out to tell how good a model becomes, so that nothing is chosen on the test part.
struct HeldOut {
  std::vector<int64_t> train, validation;  // ascending
};

/// Holds out a part of so many samples, drawn by the seed: at least one sample, and all but one at most; none of part 0.
/// Throws: InvalidArgument for a part above 0 of less than 2 samples
HeldOut hold_out(int64_t samples, double part, uint64_t seed);

/// How a run's validations went so far.
struct Validations {
  std::optional<double> best_loss{};
  int64_t best_step = 0;
  int64_t since_best = 0;  // validations after it

  /// Whether this one is the best.
  bool count(int64_t step, double loss);
};

}  // namespace adjoin::train
