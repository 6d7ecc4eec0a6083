#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>
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
  /// `of_any_module`: gradients wait for `sum_gradients`, which sums them in the order of the parameters, as modules of others may
  /// come to them in another order on each worker; and parameters of which this worker has the only copy have a shard too, which
  /// is all of them, so that one worker does as several do.
  /// Throws: InvalidArgument for a parameter whose gradients another optimizer sums within backward
  explicit WeightShards(std::vector<nn::Parameter> whole, bool of_any_module = false);

  /// Shards in place of the parameters that have copies, in their order: what an optimizer updates, and a checkpoint holds.
  const std::vector<nn::Parameter>& parameters() const { return parameters_; }

  /// Makes the whole tensors there, unless they are; called by all workers that hold copies.
  void gather();
  /// Gives their memory back; what autograd keeps of them is there again after the next `gather`.
  void release();

  /// Whether a tensor is one of the whole ones, or a view of it.
  bool holds(const at::Tensor& tensor) const;

  /// Sums what backward has added and no hook has summed; called by all workers that hold copies.
  void sum_gradients();
  /// Adds the sums that backward has left, times `factor`, to `.grad` of the shards; where it has left none that stays as it is.
  void take_gradients(double factor = 1);
  /// Drops these sums, and what a backward that failed has left unsummed.
  void forget_gradients();
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

/// Segments that run one after another, forward and back, of which one at a time has its weights whole.
class ShardedSegments {
 public:
  /// The next segment, which may have no weights. Several may share some.
  void add(std::vector<std::shared_ptr<WeightShards>> weights) { segments_.push_back(std::move(weights)); }

  /// What `forward` makes of `x`, with the weights of a segment gathered for it, and again before its backward. They stay between
  /// the two if `backward_follows`. Called by all ranks, whose backward goes through the same segments. This outlives that.
  at::Tensor run(size_t segment, const at::Tensor& x, const std::function<at::Tensor(const at::Tensor&)>& forward,
                 bool backward_follows = false) const;
  /// Sums the gradients that are there and are not summed yet.
  void sum_gradients() const;
  /// Gives back the memory of weights that are gathered, as after a backward those of its last segment are.
  void release() const;

 private:
  std::vector<std::vector<std::shared_ptr<WeightShards>>> segments_;
};

/// A parameter as WeightShards has it, with a tensor of the shard's shape and no values.
nn::Parameter shard_of(nn::Parameter whole);

}  // namespace adjoin::parallel
