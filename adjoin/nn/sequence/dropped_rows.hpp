#pragma once

#include <cstdint>

#include "adjoin/base/instruction_set.hpp"

namespace adjoin::nn {

// The loops of attention with dropout. Each handles a row of scores between two matrix products in one pass, while the row is
// in the cache. A score is dropped where its random word is less than `threshold`; a score of -infinity is hidden.

/// Which scores of a row are dropped.
struct DroppedRow {
  int64_t size;
  const uint16_t* words;
  int32_t threshold;
};

/// The largest score of a row, and the sum of exp(score - largest), both before dropout.
template <class T>
struct RowSum {
  T largest, sum;
};

/// Replaces each score s by exp(s - largest), or by 0 where it is dropped. Where all are hidden the sum is 0.
template <class T>
RowSum<T> exponentials_of(InstructionSet set, const DroppedRow& row, T* scores);

/// What the gradient of a row needs. `factor` multiplies a probability that is not dropped; `product` is the dot product of the
/// row's result and its gradient.
template <class T>
struct RowGradient {
  T log_sum, factor, product;
};

/// Replaces scores by probabilities after dropout, and gradients of these probabilities by gradients of the scores.
template <class T>
void gradients_of(InstructionSet set, const DroppedRow& row, const RowGradient<T>& at, T* scores, T* gradients);

}  // namespace adjoin::nn
