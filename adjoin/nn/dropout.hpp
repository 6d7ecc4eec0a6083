#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "adjoin/base/philox.hpp"
#include "adjoin/movement/step_context.hpp"

namespace adjoin::nn {

/// Which elements of a global tensor lie here, for masks that every layout draws alike.
struct DropoutPlace {
  std::string name;           ///< the layer's full name
  int64_t first_feature = 0;  ///< global place of the first feature that is here
};

/// Sets elements to zero with probability `p` (to the nearest 1/65536) and scales the others by 1/(1-p).
///
/// Element (sample, token, feature) is kept or not by seed, layer name, step and these global coordinates alone. Linear
/// in x and its own adjoint: the mask is drawn again in backward, nothing is saved.
/// Shape:  [samples, tokens, features] or [samples, features]
/// Cost:   one Philox block for eight elements, each way; nothing unless context.training and p > 0
/// Throws: InvalidArgument for p outside [0, 1), or a tensor of other dims
at::Tensor dropout(const at::Tensor& x, double p, const DropoutPlace& place, const StepContext& context);

/// Dropout of attention probabilities: element (sample, head, query, key) of [samples, heads, queries, keys]. The first
/// query is token context.first_token, the first key token `first_key`.
at::Tensor attention_dropout(const at::Tensor& probabilities, double p, const std::string& name, int64_t first_head,
                             const StepContext& context, int64_t first_key = 0);

/// Names the random words of one row of a mask.
struct RowOfWords {
  PhiloxKey key;
  uint32_t first_column, row, plane, volume;
};

/// Dropout of a tensor whose row r, the last dim being a row, is kept or not by `words(r)`; what the other two are made of.
/// Throws: InvalidArgument for p outside [0, 1)
at::Tensor dropout_rows(const at::Tensor& x, double p, std::function<RowOfWords(int64_t)> words);

/// Attention's masks, for kernels that drop while they compute: the words of row r of [samples, heads, queries, keys] taken
/// as rows of keys.
std::function<RowOfWords(int64_t r)> attention_words(const std::string& name, int64_t first_head, int64_t heads,
                                                     int64_t queries, const StepContext& context, int64_t first_key);

/// A word below `threshold` drops its element; the others are multiplied by `factor`.
struct DropoutSteps {
  uint16_t threshold;
  double factor;
};
/// Of a probability in [0, 1).
DropoutSteps dropout_steps(double p);

}  // namespace adjoin::nn
