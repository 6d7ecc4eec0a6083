#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace adjoin::insitu {

/// A ring of the latest samples: this rank's pieces of inputs and targets. Ranks that add alike draw alike.
class Samples {
 public:
  Samples(size_t capacity, uint64_t seed) : capacity_(capacity), seed_(seed) {}

  size_t size() const { return ring_.size(); }
  /// Keeps one sample, [1, channels, *cells] each, in the place of the oldest where the ring is full.
  void add(const at::Tensor& inputs, const at::Tensor& target);
  /// Draws so many different samples, as the seed and the number of earlier draws say, [batch, channels, *cells] each: writes their inputs
  /// and returns their targets.
  at::Tensor draw(size_t batch, at::Tensor inputs);

 private:
  size_t capacity_, next_ = 0;
  uint64_t seed_;
  uint32_t draws_ = 0;
  std::vector<std::pair<at::Tensor, at::Tensor>> ring_;
};

}  // namespace adjoin::insitu
