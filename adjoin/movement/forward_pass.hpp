#pragma once

#include <cstdint>

#include "adjoin/partition/local_token_rows.hpp"

namespace adjoin {

/// The training step that a forward pass belongs to. There is no hidden random generator: a mask depends on the seed, the
/// layer's name, the step and global coordinates alone.
struct Step {
  uint64_t seed = 0;
  int64_t number = 0;
  bool training = false;     ///< false: dropout does nothing
  int64_t first_sample = 0;  ///< index in the global batch of the first sample on this rank
  /// The part of the loss, with which backward begins, that is one sample's or one token's, for layers that add losses of their
  /// own to it; 0: they add none.
  double loss_share = 0;
  bool loss_share_is_per_token = false;  ///< else per sample
};

/// What a layer knows besides its input: the step, and the sample and token of each row of activations.
struct ForwardPass {
  Step step = {};
  LocalTokenRows rows = {};
};

}  // namespace adjoin
