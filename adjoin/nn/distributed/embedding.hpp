#pragma once

#include <torch/nn/options/embedding.h>
#include <torch/nn/pimpl.h>

#include "adjoin/nn/distributed/total.hpp"
#include "adjoin/nn/distributed/weighted.hpp"

namespace adjoin::nn {

using torch::nn::EmbeddingOptions;

/// The vectors of words, where ids, weight and output each lie on any layout, on grids of their own.
///
/// The weight stays where it is: the ids come to it, and each of its workers looks up what it has. Along the axes that cut
/// its words the vectors are summands, zeros for the words of others; along those that cut its features each makes its
/// own; along those on which it is copied each takes other ids. The vector of `padding_idx` gets no gradient; unlike its
/// twin's it does not begin as zeros.
/// Shape:  ids [*] of int64, weight [words, features] -> [*, features]
/// Kinds:  any -> the placement's
/// Cost:   a move of the ids, an all-reduce of a number by which they are checked, a look-up, and a move of the vectors
///         each way: an all-reduce where words are cut
/// Source: Shoeybi et al., arXiv 1909.08053, section 3, for words that are cut
class EmbeddingImpl : public ShardedModule {
 public:
  /// Throws: InvalidArgument for sizes below 1, a padding index that is no word, a weight of another shape or one that is
  ///         partial, and for max_norm, scale_grad_by_freq, sparse and _weight, which there are not here
  EmbeddingImpl(const EmbeddingOptions& options, const Placement& placement, const Grid& grid);
  EmbeddingImpl(const EmbeddingOptions& options, const Grid& grid) : EmbeddingImpl(options, Placement(), grid) {}

  /// Called by all workers of the world, those that hold nothing too.
  /// Throws: InvalidArgument on all of them for ids that are no words or not of int64, or where a layout does not fit
  DistributedTensor forward(const DistributedTensor& ids);

  const EmbeddingOptions options;

 private:
  struct Prepared {
    Route route;
    Move read;    // ids without partial axes
    Total wrong;  // ids that are no words, on every worker
  };
  Prepared prepare(const Layout& input) const;

  Layout weight_layout_;
  Shares shares_;
  LayoutRule output_;
  PerLayout<Prepared> prepared_;
  at::Tensor weight_;
};
TORCH_MODULE(Embedding);

}  // namespace adjoin::nn
