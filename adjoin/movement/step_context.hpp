#pragma once

#include <cstdint>

namespace adjoin {

/// What a forward pass must know of the training step that it belongs to. There is no hidden random generator: a mask
/// follows from the seed, the layer's name, the step and global coordinates alone.
struct StepContext {
  uint64_t seed = 0;
  int64_t step = 0;
  bool training = false;     ///< false: dropout does nothing
  int64_t first_sample = 0;  ///< place in the global batch of the first sample that is here
  int64_t first_token = 0;   ///< place in its sequence of the first token that is here
};

}  // namespace adjoin
