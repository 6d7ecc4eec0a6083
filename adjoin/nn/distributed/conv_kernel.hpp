#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/partition/layout.hpp"
#include "adjoin/partition/window.hpp"

namespace adjoin::nn {

/// Neighbouring rows of a grouped weight (its dim 0) in one part that belong to one group.
struct GroupRun {
  int64_t group = 0, rows = 0;
};

/// The runs of a part of the rows, where each group has `rows_in_group` rows.
std::vector<GroupRun> runs_of(const Split& rows, int part, int64_t rows_in_group);

/// How the channels on the other side of a grouped weight are split. Its columns (dim 1) count them within each group: for each
/// run of part r of the rows, part r * C + c has the channels of part c of the columns. Covering where a group is cut.
Split channels_of_columns(const Split& rows, const Split& columns, int64_t rows_in_group, int64_t groups, int64_t dim);

/// The same for a bias; each channel belongs to the first part that has it.
Split bias_of_columns(const Split& rows, const Split& columns, int64_t rows_in_group, int64_t groups);

/// LibTorch's convolution of one worker's piece.
struct ConvKernel {
  std::vector<int64_t> stride, dilation, padding;
  bool transposed = false;
  std::vector<GroupRun> runs;
  std::vector<bool> owns_bias;  ///< transposed: for each run, whether the bias of its channels is on this worker
  std::vector<Pads> pads;       ///< transposed: how each dim of space of the outputs is padded
  std::vector<int64_t> made;    ///< the shape of the result, which may lack a batch

  at::Tensor operator()(const at::Tensor& x, at::TensorList parameters) const;

 private:
  at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const;
  /// One value for each channel of the result; undefined without a bias.
  at::Tensor bias_of_made(const at::Tensor& bias, int64_t columns) const;
  int64_t channel_dim() const { return static_cast<int64_t>(made.size() - stride.size()) - 1; }
};

}  // namespace adjoin::nn
