#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/gradient_hook.hpp"

namespace adjoin::parallel {

/// Sums a parameter's gradient over the workers that hold copies of it each time that backward has added to it, or when `sum` is
/// called, and keeps this worker's shard of the sum (adjoin::sharded) in place of `.grad` (ZeRO stage 2).
///
/// All of these workers run backward through it equally often and in the same order as through others. What a
/// PostponedGradients leaves for later is summed later.
/// Throws: InvalidArgument within backward for a sparse gradient
/// Cost:   a reduce-scatter each time; 1/P of the parameter in memory, and the gradient while it is summed
class GradientShard {
 public:
  explicit GradientShard(const nn::Parameter& parameter, bool at_once = true);
  GradientShard(const GradientShard&) = delete;
  GradientShard& operator=(const GradientShard&) = delete;

  /// Whether a parameter has copies elsewhere, and more than one dim: others are small.
  static bool fits(const nn::Parameter& parameter);

  /// Sums what backward has added since the last time, if anything.
  void sum();
  /// The shard, flat, which is then gone; zeros where backward has added nothing.
  at::Tensor take();
  bool has() const { return shard_.defined(); }
  int64_t bytes() const { return shard_.defined() ? static_cast<int64_t>(shard_.nbytes()) : 0; }

 private:
  std::string name_;
  at::Tensor parameter_;
  Bucket bucket_;
  at::Tensor shard_;
  std::optional<GradientHook> hook_;
};

}  // namespace adjoin::parallel
