#pragma once

#include <torch/nn/pimpl.h>

#include "adjoin/movement/planned_call.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

struct ParallelEmbeddingOptions {
  enum class Cut : uint8_t {
    hidden,      ///< each rank holds some features of every word; one all-gather forward, nothing backward
    vocabulary,  ///< each rank holds all features of some words; one all-reduce forward, nothing backward
  };
  int64_t words = 0, features = 0;
  Cut cut = Cut::hidden;
  double deviation = 0.02;
  at::TensorOptions tensor = at::kFloat;
};

/// Vectors of words, cut by features.
/// Shape: ids [*] on every rank, weight [words, features_r] -> [*, features]
/// Kinds: replicated -> replicated
/// Cost:  all-gather of the output forward, nothing backward
at::Tensor hidden_parallel_embedding(const at::Tensor& ids, const at::Tensor& weight, const Communicator& group,
                                     const Split& features);

/// Vectors of words, cut by words: each rank looks up its own and the ranks' vectors are summed.
/// Shape:  ids [*] on every rank, weight [words_r, features] -> [*, features]
/// Kinds:  replicated -> replicated
/// Cost:   all-reduce of the output forward, nothing backward
/// Source: Shoeybi et al., arXiv 1909.08053, section 3
at::Tensor vocabulary_parallel_embedding(const at::Tensor& ids, const at::Tensor& weight, const Communicator& group,
                                         const Split& words);

/// The module of both, cut over one axis of a grid.
class ParallelEmbeddingImpl : public ShardedModule {
 public:
  ParallelEmbeddingImpl(ParallelEmbeddingOptions options, const Grid& grid, const std::string& axis);
  at::Tensor forward(const at::Tensor& ids);

  /// x W^T by the same weight: how well a vector fits each word. What a language model's last layer is where its weight is
  /// tied to the first's.
  /// Shape:  x [*, features] on every rank -> [*, words_r]
  /// Kinds:  replicated -> split
  /// Cost:   nothing forward, all-reduce of x's gradient backward
  /// Throws: InvalidArgument where it is not cut by words
  at::Tensor scores(const at::Tensor& x) const;
  /// What the lookup of so many words calls, with numbers of so many bytes.
  std::vector<PlannedCall> calls(int64_t rows, int64_t bytes) const;
  /// Of features, or of words.
  const Split& split() const { return split_; }
  const Communicator& group() const { return group_; }

 private:
  ParallelEmbeddingOptions options_;
  Communicator group_;
  Split split_;
  at::Tensor weight_;
};
TORCH_MODULE(ParallelEmbedding);

}  // namespace adjoin::nn
