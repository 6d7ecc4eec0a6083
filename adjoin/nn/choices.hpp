#pragma once

#include <cstdint>

namespace adjoin::nn {

// What a model's options choose of its layers, without LibTorch. The order is that of the words of the program's options.

/// The function between two linear layers.
enum class Activation : uint8_t {
  gelu,
  gelu_tanh,  ///< GELU by a hyperbolic tangent, as in GPT-2 (Hendrycks and Gimpel, arXiv 1606.08415)
  swiglu,  ///< silu(a) b: the first layer makes twice the features, first all a, then all b (Shazeer, arXiv 2002.05202)
  tanh,
  none,
};

/// How a norm changes the features of a token.
enum class NormKind : uint8_t {
  layer,  ///< the features minus their mean, divided by their deviation; with a weight and a bias
  rms,    ///< the features divided by the root of their mean square; with a weight
};

/// What each rank holds of a weight with a row for each word.
enum class EmbeddingCut : uint8_t {
  hidden,      ///< each rank holds some features of every word; one all-gather forward, nothing backward
  vocabulary,  ///< each rank holds all features of some words; one all-reduce forward, nothing backward
};

/// How the workers exchange keys and values.
enum class AttentionMethod : uint8_t {
  ring,      ///< keys and values travel round the ranks; a worker's memory grows with its own rows
  ulysses,   ///< for the computation each worker has all rows of some of the heads
  gathered,  ///< each worker gets all keys and values, and computes its rows of each sample's scores
};

/// How quickly the pairs of a head turn from token to token: pair i of `pairs` turns by the angle base^(-i / pairs). A scaling
/// makes the angles smaller, for texts longer than those of a model's first training.
struct RotaryOptions {
  enum class Scaling : uint8_t {
    none,
    linear,  ///< all angles divided by the factor
    /// Angles are divided by the factor where a pair makes less than `low_turns` turns within `trained_tokens`, unchanged where
    /// it makes more than `high_turns`, and a weighted mean of both in between.
    llama3,
  };
  double base = 10000;
  Scaling scaling = Scaling::none;
  double factor = 1, low_turns = 1, high_turns = 4;
  int64_t trained_tokens = 8192;

  bool operator==(const RotaryOptions&) const = default;
};

}  // namespace adjoin::nn
