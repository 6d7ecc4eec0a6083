#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace adjoin::train {

/// Training samples, some of which are held out to judge the model, so that nothing is chosen by the test part.
struct HeldOut {
  std::vector<int64_t> train, validation;  // ascending
};

/// Holds out the fraction `part` of the samples, drawn by the seed: at least one sample, at most all but one; none if `part` is
/// 0.
/// Throws: InvalidArgument for a part above 0 of less than 2 samples
HeldOut hold_out(int64_t samples, double part, uint64_t seed);

/// The results of a run's validations so far.
struct Validations {
  std::optional<double> best_loss{};
  int64_t best_step = 0;
  int64_t since_best = 0;  // validations since the best one

  /// Counts a validation; returns whether it is the best so far.
  bool count(int64_t step, double loss);
};

}  // namespace adjoin::train
