#pragma once

#include <optional>
#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/models/transformer_block.hpp"
#include "adjoin/nn/embedding.hpp"
#include "adjoin/nn/positions.hpp"

namespace adjoin::models {

/// The options of a transformer's trunk, without its head.
struct TransformerOptions {
  enum class Positions : uint8_t {
    none,
    learned,  ///< a vector for each token of the context, added to the word's
    rotary,   ///< queries and keys are turned by position (nn/positions.hpp)
  };
  int64_t words = 0, layers = 0, hidden = 0, heads = 0;
  int64_t context = 0;    ///< the most tokens of a sample; 0: any number, if positions are not learned
  int64_t key_heads = 0;  ///< key and value heads, each shared by the same number of query heads; 0: as many as `heads`
  int64_t head_size = 0;  ///< features of a head; 0: hidden / heads
  /// The features between the two layers of a feed-forward layer; 0: 4 hidden, or for SwiGLU, which has three matrices, 8/3
  /// hidden, rounded up.
  int64_t inner = 0;
  Positions positions = Positions::none;
  nn::RotaryOptions rotary = {};
  /// The number of kinds of text that tokens can belong to. The vector of kind 0 is added to each word's; 0: no such vectors.
  int64_t token_types = 0;
  bool embedding_norm = false;
  nn::NormOptions::Kind norm = nn::NormOptions::Kind::layer;
  double norm_epsilon = 1e-5;
  /// Normalises each layer's sum with its input, as in the first transformers; false: normalises each layer's input.
  bool norm_after_sum = false;
  bool final_norm = false;           ///< a norm after the last block
  std::optional<double> scale = {};  ///< of the attention scores; default 1/sqrt(head size)
  bool qkv_bias = false, out_bias = false, feed_forward_bias = false;
  nn::Activation activation = nn::Activation::gelu;
  double dropout = 0.1;  ///< of attention and feed-forward outputs
  double embedding_dropout = 0;
  double attention_dropout = 0;       ///< of the attention probabilities
  double embedding_deviation = 0.02;  ///< of the initial embeddings; nn/linear.hpp says how linear layers begin
  nn::ParallelEmbeddingOptions::Cut embedding_cut = nn::ParallelEmbeddingOptions::Cut::hidden;
  bool causal = false;
  RowOptions rows = {};
  ExpertOptions experts = {};

  int64_t features_of_head() const { return head_size == 0 ? hidden / heads : head_size; }
  int64_t inner_features() const;
};

/// The segments "embedding", "block0" and so on; all tensor parallel over the axis "tp". Errors use the name `model`.
///
/// Shape:  ids [rows] int64, of the samples and tokens that the pass says -> [rows, hidden]; where rows are split, the rank's
///         part
/// Kinds:  replicated -> replicated, or split
/// Throws: InvalidArgument for less than 1 word or layer, and for learned positions without a context. Making the parts throws
///         it for heads that do not divide the hidden size where no head size is given, and for more ranks along "tp" than key
///         heads; running them throws it for samples longer than the context
std::vector<Segment> trunk(const TransformerOptions& options, const std::string& model);

/// A part that holds a vector for each word.
Part words_part(const TransformerOptions& options, const std::string& name = "embedding");
/// The norm after the blocks, "norm".
Part norm_part(const TransformerOptions& options, const std::string& name = "norm");

}  // namespace adjoin::models
