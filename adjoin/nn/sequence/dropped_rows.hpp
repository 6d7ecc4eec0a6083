#pragma once

#include <cstdint>

#include "adjoin/base/instruction_set.hpp"

namespace adjoin::nn {

// The loops of attention with dropout: what becomes of a row of scores between two matrix products, in one pass while it is
// in the cache. A score is dropped where its random word is less than `threshold`; one of -infinity is hidden.

/// Which scores of a row are dropped.
struct DroppedRow {
  int64_t size;
  const uint16_t* words;
  int32_t threshold;
};

/// The largest score of a row, and the sum of the exponentials of all less it: before dropout.
template <class T>
struct RowSum {
  T largest, sum;
};

/// A score s becomes exp(s - largest), or 0 where they are dropped. Where all are hidden the sum is 0.
template <class T>
RowSum<T> exponentials_of(InstructionSet set, const DroppedRow& row, T* scores);

/// What the gradient of a row needs: `factor` is what a probability that is not dropped is multiplied with, `product` that
/// of the row's result and its gradient.
template <class T>
struct RowGradient {
  T log_sum, factor, product;
};

/// Scores become the probabilities after dropout, and the gradients of these those of the scores.
template <class T>
void gradients_of(InstructionSet set, const DroppedRow& row, const RowGradient<T>& at, T* scores, T* gradients);

}  // namespace adjoin::nn
