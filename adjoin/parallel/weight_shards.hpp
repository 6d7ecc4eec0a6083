#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/gradient_shard.hpp"

namespace adjoin::parallel {

/// The weights of a module, of which each worker that holds copies keeps its shard alone (adjoin::sharded), and has the whole
/// tensors while it computes with them (ZeRO stage 3).
///
/// The module's parameters keep their sizes, and have memory between `gather` and `release`. What backward adds to one of them is
/// summed over its copies at once, by a hook, and the worker keeps its shard of the sum. Buffers, and what has no copies
/// elsewhere, stay as they are.
/// Cost:   a `gather` is an all-gather of each weight, a backward a reduce-scatter; 1/P of the weights and of their gradients in
///         memory, and what is gathered
/// Source: Rajbhandari et al., "ZeRO", arXiv 1910.02054
class WeightShards {
 public:
  /// Called by all workers of the parameters' grids. Values that a module gave itself become those of the first of them.
  /// Throws: InvalidArgument for a parameter whose gradients another optimizer sums within backward
  explicit WeightShards(std::vector<nn::Parameter> whole);

  /// Shards in place of the parameters that have copies, in their order: what an optimizer updates, and a checkpoint holds.
  const std::vector<nn::Parameter>& parameters() const { return parameters_; }

  /// Makes the whole tensors there, unless they are; called by all workers that hold copies.
  void gather();
  /// Gives their memory back; what autograd keeps of them is there again after the next `gather`.
  void release();

  /// Puts the sums that backward has left into `.grad` of the shards; where it has left none they stay undefined.
  void take_gradients();
  /// The bytes of these sums.
  int64_t gradient_bytes() const;
  /// From now on nothing is summed: what backward adds stays in `.grad` of the whole tensors. For those who measure a part of a
  /// backward whose other part sums it.
  void leave_gradients();

 private:
  struct Weight {
    at::Tensor whole, shard;
    Bucket bucket;
    std::unique_ptr<GradientShard> gradient = {};  // none where the weight is not trained
  };

  std::vector<nn::Parameter> parameters_;
  std::vector<Weight> weights_;
  bool is_gathered_ = false;
};

/// A parameter as WeightShards has it, with a tensor of the shard's shape and no values.
nn::Parameter shard_of(nn::Parameter whole);

}  // namespace adjoin::parallel
