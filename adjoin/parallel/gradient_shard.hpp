#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/gradient_hook.hpp"

namespace adjoin::parallel {

/// Sums a parameter's gradient over the workers that hold copies of it, each time that backward has added to it or when `sum`
/// is called, and keeps this worker's shard of the sum (adjoin::sharded) in place of `.grad` (ZeRO stage 2).
///
/// All these workers must run backward through the parameter equally often, and in the same order relative to other parameters.
/// Gradients that a PostponedGradients postpones are summed later.
/// Between hosts the sum runs on beside backward, until the next sum of this parameter or what needs it.
/// Throws: InvalidArgument within backward for a sparse gradient
/// Cost:   a reduce-scatter each time; in memory 1/P of the parameter, and the gradient while it is summed
class GradientShard {
 public:
  explicit GradientShard(const nn::Parameter& parameter, bool at_once = true);
  ~GradientShard();
  GradientShard(const GradientShard&) = delete;
  GradientShard& operator=(const GradientShard&) = delete;

  /// Whether a parameter has copies on other workers and more than one dim: others are small.
  static bool fits(const nn::Parameter& parameter);

  /// Sums what backward has added since the last call, if anything.
  void sum();
  /// Returns the flat shard and forgets it, of the reals of a complex parameter; zeros where backward has added nothing.
  at::Tensor take();
  bool has() const { return shard_.defined() || running_; }
  int64_t bytes() const { return shard_.defined() ? static_cast<int64_t>(shard_.nbytes()) : 0; }

 private:
  void finish();
  void keep_sum();

  std::string name_;
  at::Tensor parameter_;
  Bucket bucket_;
  at::Tensor shard_;
  at::Tensor whole_;                  // of the sum that runs
  std::unique_ptr<Pending> running_;  // after whole_, which it reads
  std::optional<GradientHook> hook_;
};

}  // namespace adjoin::parallel
