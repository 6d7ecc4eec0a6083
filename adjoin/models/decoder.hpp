#pragma once

#include <torch/nn/pimpl.h>

#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/models/transformer_block.hpp"
#include "adjoin/nn/embedding.hpp"

namespace adjoin::models {

/// A transformer that says which word comes next, of GPT's shape.
struct DecoderOptions {
  enum class Positions : uint8_t {
    learned,  ///< a vector for each token of the context, added to the word's
    rotary,   ///< queries and keys are turned by their tokens (nn/positions.hpp)
  };
  int64_t words = 0, layers = 0, hidden = 0, heads = 0;
  int64_t context = 0;    ///< the most tokens of a sample
  int64_t key_heads = 0;  ///< heads of keys and values, which equally many of the heads share; 0: as many as heads
  Positions positions = Positions::learned;
  double rotary_base = 10000;
  nn::Activation activation = nn::Activation::gelu;
  /// Between the two layers of a feed-forward; 0: 4 hidden, of SwiGLU, which has three matrices, 8/3 hidden, rounded up.
  int64_t inner = 0;
  double dropout = 0.1;  ///< of the embedding, and of attention and feed-forward outputs
  double attention_dropout = 0;
  double embedding_deviation = 0.02;  ///< of initial embeddings; linear layers begin as in nn/linear.hpp
  RowOptions rows = {};
  at::TensorOptions tensor = at::kFloat;
};

/// Embedding, pre-norm blocks with causal attention, a norm, and the scores of all words by the embedding's own weight; all
/// tensor parallel over one axis of a grid. No biases but those of the norms.
///
/// Each sample sees itself alone: documents that are packed into a sequence are samples of their own.
///
/// Shape: ids [rows] int64, of the samples and tokens that the context says -> scores [rows, words of this rank]
/// Kinds: replicated -> split; nn::vocabulary_parallel_cross_entropy takes them as they are
/// Cost:  forward 2 layers + 1 all-reduces, and an all-gather where positions are learned; backward 2 layers + 1 all-reduces
/// Source: Radford et al., "Language models are unsupervised multitask learners", 2019; Shoeybi et al., arXiv 1909.08053
class DecoderImpl : public torch::nn::Module {
 public:
  /// Throws: InvalidArgument for sizes below 1, heads that do not divide the hidden size, heads of keys that do not divide
  ///         the heads, more ranks than heads of keys
  DecoderImpl(DecoderOptions options, const Grid& grid, const std::string& axis);

  /// Throws: InvalidArgument for samples that are longer than the context
  at::Tensor forward(const at::Tensor& ids, const StepContext& context);

  /// "embedding", "block0" and so on, "head", which has the embedding's weight too.
  ///
  /// With caches, one for each block, which must live as long as the segments are used, the rows are the tokens of one
  /// sample behind those that the caches hold (as nn::ParallelSelfAttention), and are added to them.
  std::vector<Segment> segments(std::vector<nn::KeyValueCache>* caches = nullptr) const;

  const DecoderOptions& options() const { return options_; }
  /// How the words are cut, and over whom.
  const Split& words() const { return embedding_->split(); }
  const Communicator& group() const { return embedding_->group(); }

 private:
  DecoderOptions options_;
  nn::ParallelEmbedding embedding_{nullptr}, positions_{nullptr};
  std::vector<TransformerBlock> blocks_;
  nn::ReplicatedLayerNorm norm_{nullptr};
};
TORCH_MODULE(Decoder);

}  // namespace adjoin::models
