#pragma once

#include <cstdint>
#include <string>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/choices.hpp"
#include "adjoin/partition/local_token_rows.hpp"

namespace adjoin::models {

/// How the rows of a model are split over workers (its features are split over the tensor-parallel ones), and what is computed
/// again in backward.
struct TokenRowOptions {
  /// Sequence parallelism: between the tensor-parallel layers each of their ranks has a balanced part of the rows.
  bool split = false;
  /// Context parallelism: the axis of the grid over whose ranks each sample's rows are split; "": not split.
  std::string axis = {};
  nn::AttentionMethod method = nn::AttentionMethod::ring;  ///< for context parallelism
  bool recompute_attention = false;                        ///< only attention's core, between its two linear layers

  /// The rows that this rank of a tensor-parallel group has between the layers: all of `rows`, or its part of them.
  LocalTokenRows between_layers(const LocalTokenRows& rows, const Communicator& group) const;

  bool operator==(const TokenRowOptions&) const = default;
};

/// Experts instead of a transformer's feed-forward layers; most fields are those of nn::MixtureOfExpertsOptions.
struct ExpertOptions {
  int64_t count = 1;  ///< 1: ordinary feed-forward layers
  int64_t top_k = 1;
  int64_t every = 1;  ///< every so-many-th block has experts
  bool normalises_gates = true;
  double balance_loss = 0, z_loss = 0;
  std::string axis = {};

  bool in_block(int64_t block) const { return count > 1 && (block + 1) % every == 0; }
  bool operator==(const ExpertOptions&) const = default;
};

/// The options of a transformer's trunk, without its head.
struct TransformerOptions {
  enum class Positions : uint8_t {
    none,
    learned,  ///< a vector for each token of the context, added to the word's
    rotary,   ///< queries and keys are turned by position (nn::rotary)
  };
  enum class NormPlace : uint8_t {
    before,  ///< normalises each layer's input
    after,   ///< normalises each layer's sum with its input, as in the first transformers
  };
  /// The size by whose square root the scores of attention are divided.
  enum class ScoreScale : uint8_t { hidden, head };
  /// The layers of attention that have biases: none, that of queries, keys and values, or that of the output too.
  enum class AttentionBias : uint8_t { none, qkv, all };
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
  nn::NormKind norm = nn::NormKind::layer;
  double norm_epsilon = 1e-5;
  NormPlace norm_place = NormPlace::before;
  bool final_norm = false;  ///< a norm after the last block
  ScoreScale score_scale = ScoreScale::head;
  AttentionBias attention_bias = AttentionBias::none;
  bool feed_forward_bias = false;
  nn::Activation activation = nn::Activation::gelu;
  double dropout = 0.1;  ///< of attention and feed-forward outputs
  double embedding_dropout = 0;
  double attention_dropout = 0;       ///< of the attention probabilities
  double embedding_deviation = 0.02;  ///< of the initial embeddings; nn/linear.hpp says how linear layers begin
  nn::EmbeddingCut embedding_cut = nn::EmbeddingCut::hidden;
  bool causal = false;
  TokenRowOptions rows = {};
  ExpertOptions experts = {};

  int64_t heads_of_keys() const { return key_heads == 0 ? heads : key_heads; }
  int64_t features_of_head() const { return head_size == 0 ? hidden / heads : head_size; }
  int64_t inner_features() const;

  bool operator==(const TransformerOptions&) const = default;
};

/// The head that classifies a text from a transformer's output: features -> features -> activation -> dropout -> classes. The
/// defaults are the simplified BERT of the DLO-JZ course (IDRIS), which uses token 0.
struct ClassifierOptions {
  /// What the classifier sees: a sample's token 0, or the mean of its tokens.
  enum class Pooling : uint8_t { cls, mean };
  int64_t classes = 2;
  Pooling pooling = Pooling::cls;
  bool pooler = false;  ///< BERT's form: biases, and tanh as activation instead of gelu
  double dropout = 0.1;

  bool operator==(const ClassifierOptions&) const = default;
};

}  // namespace adjoin::models
