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

/// The weights of a module. Each worker that holds copies keeps only its shard of them (adjoin::sharded), and has the whole
/// tensors while it computes with them (ZeRO stage 3).
///
/// The module's parameters keep their sizes, and have memory between `gather` and `release`. A hook sums what backward adds to
/// one of them over its copies at once, and the worker keeps its shard of the sum. Buffers, and parameters without copies on
/// other workers, are left unchanged.
/// Cost:   `gather` is an all-gather of each weight, a backward a reduce-scatter; in memory 1/P of the weights and of their
///         gradients, and what is gathered
/// Source: Rajbhandari et al., "ZeRO", arXiv 1910.02054
class WeightShards {
 public:
  /// Called by all workers of the parameters' grids. Values that a module initialised itself are replaced by those of the first
  /// worker. `of_any_module`: gradients wait for `sum_gradients`, which sums them in the order of the parameters, as other
  /// modules may reach them in a different order on each worker. Parameters of which this worker has the only copy then have a
  /// shard too, which is the whole parameter, so that one worker does the same as several.
  /// Throws: InvalidArgument for a parameter whose gradients another optimizer sums within backward
  explicit WeightShards(std::vector<nn::Parameter> whole, bool of_any_module = false);

  /// Shards in place of the parameters that have copies, in the order of the parameters: an optimizer updates them, and a
  /// checkpoint stores them.
  const std::vector<nn::Parameter>& parameters() const { return parameters_; }

  /// Makes the whole tensors available, unless they are; called by all workers that hold copies.
  void gather();
  /// Frees the memory of the whole tensors; what autograd keeps of them is valid again after the next `gather`.
  void release();

  /// Whether a tensor is one of the whole tensors, or a view of one.
  bool holds(const at::Tensor& tensor) const;

  /// Sums what backward has added and no hook has summed; called by all workers that hold copies.
  void sum_gradients();
  /// Adds the sums that backward has left, times `factor`, to `.grad` of the shards; where it has left none, `.grad` does not
  /// change.
  void take_gradients(double factor = 1);
  /// Drops these sums, and the unsummed gradients of a backward that failed.
  void forget_gradients();
  /// The bytes of these sums.
  int64_t gradient_bytes() const;
  /// From now on nothing is summed: what backward adds stays in `.grad` of the whole tensors. For measurements of one part of a
  /// backward, where another part sums.
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

/// Segments that run one after another, forward and backward; only one at a time has its whole weights.
class ShardedSegments {
 public:
  /// Adds the next segment, which may have no weights. Several segments may share weights.
  void add(std::vector<std::shared_ptr<WeightShards>> weights) { segments_.push_back(std::move(weights)); }

  /// Returns `forward(x)`, with the weights of a segment gathered for it, and again before its backward. If `backward_follows`,
  /// they stay gathered between the two. Called by all ranks, whose backward must go through the same segments. This object
  /// must outlive that backward.
  at::Tensor run(size_t segment, const at::Tensor& x, const std::function<at::Tensor(const at::Tensor&)>& forward,
                 bool backward_follows = false) const;
  /// Sums the gradients that exist and are not summed yet.
  void sum_gradients() const;
  /// Frees the memory of weights that are still gathered, as those of the last segment are after a backward.
  void release() const;

 private:
  std::vector<std::vector<std::shared_ptr<WeightShards>>> segments_;
};

/// A parameter in the form that WeightShards has it, with a tensor of the shard's shape and no values.
nn::Parameter shard_of(nn::Parameter whole);

}  // namespace adjoin::parallel
