#pragma once

#include <cstdint>

#include "adjoin/partition/local_rows.hpp"

namespace adjoin {

/// The step of a training that a forward pass belongs to. There is no hidden random generator: a mask follows from the seed,
/// the layer's name, the step and global coordinates alone.
struct Step {
  uint64_t seed = 0;
  int64_t number = 0;
  bool training = false;     ///< false: dropout does nothing
  int64_t first_sample = 0;  ///< place in the global batch of the first sample that is here
  /// What a sample, or a token, counts in the loss that backward begins with, for layers that add losses of their own to it; 0:
  /// they add none.
  double weight = 0;
  bool weighs_tokens = false;
};

/// What a layer knows beside its input: the step, and which sample and token each row of activations is.
struct ForwardPass {
  Step step = {};
  LocalRows rows = {};
};

}  // namespace adjoin
