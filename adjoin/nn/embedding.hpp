#pragma once

#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

#include "adjoin/nn/choices.hpp"
#include "adjoin/nn/fixed/layers.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/local_token_rows.hpp"

namespace adjoin::nn {

struct ParallelEmbeddingOptions {
  using Cut = EmbeddingCut;
  int64_t words = 0, features = 0;
  Cut cut = Cut::hidden;
  bool split_rows = false;  ///< sequence parallelism: each rank gets a balanced part of the rows
  double deviation = 0.02;
  at::TensorOptions tensor = at::kFloat;
};

/// Vectors of words, with the weight cut by features.
/// Shape: ids [*] on every rank, weight [words, features_r] -> [*, features]; with `rows`, which split the only dim of the ids,
///        the vectors of this rank's rows
/// Kinds: replicated -> replicated, or split
/// Cost:  all-gather of the output forward, nothing backward; with rows an exchange each way, of (P-1)/P of a rank's output
at::Tensor hidden_parallel_embedding(const at::Tensor& ids, const at::Tensor& weight, const Communicator& group,
                                     const Split& features, const std::optional<Split>& rows = {});

/// Vectors of words, with the weight cut by words: each rank looks up its own words, and the ranks' vectors are summed.
/// Shape:  ids [*] on every rank, weight [words_r, features] -> [*, features]; with `rows` as hidden_parallel_embedding
/// Kinds:  replicated -> replicated, or split
/// Cost:   all-reduce of the output forward, nothing backward; with rows a reduce-scatter, and backward an all-gather
/// Source: Shoeybi et al., arXiv 1909.08053, section 3
at::Tensor vocabulary_parallel_embedding(const at::Tensor& ids, const at::Tensor& weight, const Communicator& group,
                                         const Split& words, const std::optional<Split>& rows = {});

/// The module of both, cut over one axis of a grid.
class ParallelEmbeddingImpl : public ShardedModule {
 public:
  ParallelEmbeddingImpl(ParallelEmbeddingOptions options, const Grid& grid, const std::string& axis);
  at::Tensor forward(const at::Tensor& ids);

  /// x W^T by the same weight: how well a vector fits each word. It is the last layer of a language model whose weight is tied
  /// to the first layer's. Where rows are split, x is this rank's part of `rows`.
  /// Shape:  x [*, features] on every rank -> [*, words_r]
  /// Kinds:  replicated, or split by rows -> split
  /// Cost:   as column_parallel_linear
  /// Throws: InvalidArgument where the weight is not cut by words
  at::Tensor scores(const at::Tensor& x, const LocalTokenRows& rows = {});

  /// How the features or the words are split.
  const Split& split() const { return split_; }
  const Communicator& group() const { return group_; }

 private:
  ParallelEmbeddingOptions options_;
  Communicator group_;
  Split split_;
  fixed::CutFeatures cut_words_;  // for sums in a fixed order
  at::Tensor weight_;
};
TORCH_MODULE(ParallelEmbedding);

}  // namespace adjoin::nn
