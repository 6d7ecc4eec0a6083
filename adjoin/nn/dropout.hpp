#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "adjoin/base/philox.hpp"
#include "adjoin/movement/forward_pass.hpp"

namespace adjoin::nn {

/// Which features of a global tensor lie here, for masks that every layout draws alike.
struct DropoutPlace {
  std::string name;           ///< the layer's full name
  int64_t first_feature = 0;  ///< global place of the first feature that is here
};

/// Sets elements to zero with probability `p` (to the nearest 1/65536) and scales the others by 1/(1-p).
///
/// Element (sample, token, feature) is kept or not by seed, layer name, step and these global coordinates alone. Linear
/// in x and its own adjoint: the mask is drawn again in backward, nothing is saved.
/// Shape:  [rows, features], of the samples and tokens that the pass says
/// Cost:   one Philox block for eight elements, each way; nothing unless the step is of a training and p > 0
/// Throws: InvalidArgument for p outside [0, 1), or a tensor of other dims or rows
at::Tensor dropout(const at::Tensor& x, double p, const DropoutPlace& place, const ForwardPass& pass);

/// base + dropout(x) in one pass: what a residual connection does. Of the base's type; x may be of a 16-bit type beside a base
/// of float32, as autocast makes it.
/// Throws: InvalidArgument as dropout, and for tensors of two shapes
at::Tensor add_dropped(const at::Tensor& base, const at::Tensor& x, double p, const DropoutPlace& place,
                       const ForwardPass& pass);

/// Names the random words of one row of a mask.
struct RowOfWords {
  PhiloxKey key;
  uint32_t first_column, row, plane, volume;
};

/// Dropout of a tensor whose row r, the last dim being a row, is kept or not by `words(r)`; what the other two are made of.
/// Throws: InvalidArgument for p outside [0, 1)
at::Tensor dropout_rows(const at::Tensor& x, double p, std::function<RowOfWords(int64_t)> words);

/// A block of the scores of one sample: [heads, queries, keys].
struct ScoresPlace {
  int64_t sample = 0;      ///< in the global batch
  Range queries;           ///< tokens
  int64_t first_key = 0;   ///< a token
  int64_t first_head = 0;  ///< among all heads
};

/// The words of row r of such a block, taken as rows of keys: what dropout of attention's probabilities draws.
std::function<RowOfWords(int64_t r)> attention_words(const std::string& name, int64_t heads, const ScoresPlace& place,
                                                     const Step& step);

/// A word below `threshold` drops its element; the others are multiplied by `factor`.
struct DropoutSteps {
  uint16_t threshold;
  double factor;
};
/// Of a probability in [0, 1).
DropoutSteps dropout_steps(double p);

}  // namespace adjoin::nn
