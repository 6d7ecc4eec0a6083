#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "adjoin/base/philox.hpp"
#include "adjoin/movement/forward_pass.hpp"

namespace adjoin::nn {

/// Which features of a global tensor this worker holds, for masks that are the same in every layout.
struct DropoutPlace {
  std::string name;           ///< the layer's full name
  int64_t first_feature = 0;  ///< global place of the first feature here
};

/// Sets elements to zero with probability `p` (to the nearest 1/65536) and scales the others by 1/(1-p).
///
/// Whether element (sample, token, feature) is kept depends on seed, layer name, step and these global coordinates alone.
/// Linear in x and its own adjoint: the mask is drawn again in backward, nothing is saved.
/// Shape:  [rows, features], of the samples and tokens that the pass says
/// Cost:   one Philox block for eight elements, each way; nothing outside of training or for p = 0
/// Throws: InvalidArgument for p outside [0, 1), or a tensor with other dims or rows
at::Tensor dropout(const at::Tensor& x, double p, const DropoutPlace& place, const ForwardPass& pass);

/// base + dropout(x) in one pass, as a residual connection needs it. The result has base's type; x may have a 16-bit type with
/// a float32 base, as under autocast.
/// Throws: InvalidArgument as dropout, and for tensors of different shapes
at::Tensor add_dropped(const at::Tensor& base, const at::Tensor& x, double p, const DropoutPlace& place,
                       const ForwardPass& pass);

/// Names the random words of one row of a mask.
struct MaskRow {
  PhiloxKey key;
  uint32_t first_column, row, plane, volume;
};

/// Dropout of a tensor, row by row along the last dim: `words(r)` decides what is kept of row r. The other two functions use
/// it.
/// Throws: InvalidArgument for p outside [0, 1)
at::Tensor dropout_rows(const at::Tensor& x, double p, std::function<MaskRow(int64_t)> words);

/// A block of the scores of one sample: [heads, queries, keys].
struct ScoresPlace {
  int64_t sample = 0;      ///< its place in the global batch
  Range queries;           ///< tokens
  int64_t first_key = 0;   ///< its token
  int64_t first_head = 0;  ///< its place among all heads
};

/// The words of row r of such a block, where a row runs along the keys: dropout of the attention probabilities draws them.
std::function<MaskRow(int64_t r)> attention_words(const std::string& name, int64_t heads, const ScoresPlace& place,
                                                  const Step& step);

/// Drops an element whose word is below `threshold`, and multiplies the others by `factor`.
struct DropoutSteps {
  uint16_t threshold;
  double factor;
};
/// For a probability in [0, 1).
DropoutSteps dropout_steps(double p);

}  // namespace adjoin::nn
