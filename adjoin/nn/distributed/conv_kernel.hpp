#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/partition/layout.hpp"
#include "adjoin/partition/window.hpp"

namespace adjoin::nn {

/// Rows of a grouped weight (its dim 0) that lie together in a part and are of one group.
struct GroupRun {
  int64_t group = 0, rows = 0;
};

/// The runs of a part of the rows, whose groups have `rows_in_group` each.
std::vector<GroupRun> runs_of(const Split& rows, int part, int64_t rows_in_group);

/// The channels on the other side of a grouped weight, which its columns (dim 1) count within each group: part r * C + c
/// has, for each run of part r of the rows, those of part c of the columns. Covering where groups are cut through.
Split channels_of_columns(const Split& rows, const Split& columns, int64_t rows_in_group, int64_t groups, int64_t dim);

/// The same for a bias, of which each channel belongs to the first part that has it.
Split bias_of_columns(const Split& rows, const Split& columns, int64_t rows_in_group, int64_t groups);

/// LibTorch's convolution of one worker's piece.
struct ConvKernel {
  std::vector<int64_t> stride, dilation, padding;
  bool transposed = false;
  std::vector<GroupRun> runs;
  std::vector<bool> owns_bias;  ///< transposed: of each run, whether the bias of its channels is here
  std::vector<Pads> pads;       ///< transposed: of the outputs, of each dim of space
  std::vector<int64_t> made;    ///< the shape of the result, which may have no batch

  at::Tensor operator()(const at::Tensor& x, at::TensorList parameters) const;

 private:
  at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const;
  /// One for each channel made, or undefined.
  at::Tensor bias_of_made(const at::Tensor& bias, int64_t columns) const;
  int64_t channel_dim() const { return static_cast<int64_t>(made.size() - stride.size()) - 1; }
};

}  // namespace adjoin::nn
