#pragma once

#include <torch/nn/options/embedding.h>
#include <torch/nn/pimpl.h>

#include "adjoin/nn/distributed/total.hpp"
#include "adjoin/nn/distributed/weighted.hpp"

namespace adjoin::nn {

using torch::nn::EmbeddingOptions;

/// Looks up the words that are here; `places` has their places (places_held). Words of other workers give zeros.
/// Shape: ids [*] of int64, all of them words; weight [words here, features] -> [*, features]
at::Tensor look_up_here(const at::Tensor& ids, const at::Tensor& weight, const at::Tensor& places,
                        int64_t padding_place);

/// The vectors of words. Ids, weight and output may each have any layout, each on its own grid.
///
/// The weight stays where it is: the ids are moved to it, and each of its workers looks up the part that it has. Along the axes
/// that cut the words the vectors are summands, zeros for words of other workers; along those that cut the features each worker
/// makes its own features; along those on which the weight is copied each worker takes other ids. The vector of `padding_idx`
/// gets no gradient; unlike in torch::nn it does not begin as zeros.
/// Shape:  ids [*] of int64, weight [words, features] -> [*, features]
/// Kinds:  any -> as the placement says
/// Cost:   a move of the ids, an all-reduce of one number, which checks them, a look-up, and a move of the vectors each way: an
///         all-reduce where words are cut
/// Source: Shoeybi et al., arXiv 1909.08053, section 3, for words that are cut
class EmbeddingImpl : public ShardedModule {
 public:
  /// Throws: InvalidArgument for sizes below 1, a padding index that is not a word, a weight of another shape or a partial one,
  ///         and for max_norm, scale_grad_by_freq, sparse and _weight, which are not supported
  EmbeddingImpl(const EmbeddingOptions& options, const LayerLayouts& placement, const Grid& grid);
  EmbeddingImpl(const EmbeddingOptions& options, const Grid& grid) : EmbeddingImpl(options, LayerLayouts(), grid) {}

  /// All workers of the world call it, also those that hold nothing.
  /// Throws: InvalidArgument on all workers for ids that are not words or not int64, or where a layout does not fit
  DistributedTensor forward(const DistributedTensor& ids);

  const EmbeddingOptions options;

 private:
  struct Prepared {
    Route route;
    Move read;    // ids without partial axes
    Total wrong;  // number of ids that are not words, on every worker
  };
  Prepared prepare(const Layout& input) const;

  Layout weight_layout_;
  WorkDivision division_;
  LayoutRule output_;
  PerLayout<Prepared> prepared_;
  at::Tensor weight_;
};
TORCH_MODULE(Embedding);

}  // namespace adjoin::nn
