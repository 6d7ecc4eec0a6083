#pragma once

#include <torch/csrc/autograd/forward_grad.h>

namespace adjoin::testing {

/// LibTorch's forward mode, which belongs to the process.
class ForwardMode {
 public:
  ForwardMode() = default;
  ~ForwardMode() { torch::autograd::ForwardADLevel::release_idx(level_); }
  ForwardMode(const ForwardMode&) = delete;
  ForwardMode& operator=(const ForwardMode&) = delete;

 private:
  uint64_t level_ = torch::autograd::ForwardADLevel::get_next_idx();
};

}  // namespace adjoin::testing
