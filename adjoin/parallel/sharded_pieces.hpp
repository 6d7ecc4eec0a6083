#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/weight_gathers.hpp"

namespace adjoin::parallel {

/// The pieces of a module's global weights, of which each worker keeps only its shard (ZeRO stage 3): a piece that others have
/// copies of has memory while an operation reads it.
///
/// All workers run the same operations, and so gather and sum in one order.
/// Cost:   an all-gather of each unit in each of forward and backward, and a reduce-scatter of each gradient; in memory 1/P of the
///         weights and of their gradients, and at most two units
/// Source: Rajbhandari et al., "ZeRO", arXiv 1910.02054
class ShardedPieces {
 public:
  /// Of all parameters and buffers, in the module's order. Small neighbours are gathered together, up to `unit_bytes`.
  ShardedPieces(const std::vector<nn::Parameter>& pieces, int64_t unit_bytes);

  /// Shards in the place of the pieces of which others have copies.
  const std::vector<nn::Parameter>& parameters() const { return kept_; }
  /// Adds a gradient of a whole piece, a summand, to that of its shard. Called by all workers that hold copies. As an update may
  /// follow, which workers without elements do not see, nothing stays whole from now on until the next `begin`.
  void add(size_t piece, const at::Tensor& gradient);
  /// A step begins: its forward pass and its backward. What backward has read of weights that are not trained is freed first.
  void begin() {
    release();
    gathers_->keep(true);
  }
  void release() { gathers_->release(); }

 private:
  std::vector<nn::Parameter> kept_;
  struct Shared {
    size_t weight;  // its place in gathers_
    Bucket bucket;
  };
  std::vector<std::optional<Shared>> shared_;  // of each piece; none where others have no copies
  std::optional<WeightGathers> gathers_;
};

}  // namespace adjoin::parallel
