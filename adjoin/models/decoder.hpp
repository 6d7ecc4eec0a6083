#pragma once

#include <vector>

#include "adjoin/models/trunk.hpp"

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
  ExpertOptions experts = {};
};

/// The trunk with causal attention, and as "head" a norm and the scores of all words by the embedding's own weight; tensor
/// parallel over the axis "tp" of the grid. No biases but those of the norms.
///
/// Each sample sees itself alone: documents that are packed into a sequence are samples of their own.
///
/// Shape:  ids [rows] int64, of the samples and tokens that the pass says -> scores [rows, words of this rank]
/// Kinds:  replicated -> split; nn::vocabulary_parallel_cross_entropy takes them as they are
/// Cost:   forward 2 layers + 1 all-reduces, and an all-gather where positions are learned; backward 2 layers + 1 all-reduces
/// Throws: InvalidArgument for sizes below 1; where it is made, for heads that do not divide the hidden size, heads of keys that
///         do not divide the heads, more ranks than heads of keys; where it runs, for samples longer than the context
/// Source: Radford et al., "Language models are unsupervised multitask learners", 2019; Shoeybi et al., arXiv 1909.08053
std::vector<Segment> decoder(const DecoderOptions& options);

}  // namespace adjoin::models
