#include "adjoin/nn/distributed/conv_kernel.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>

#include "adjoin/nn/linear.hpp"

namespace adjoin::nn {
namespace {

/// Calls visit(group, rows part, columns part, whether no earlier part of the rows has the group) for all runs.
template <class Visit>
void visit_runs(const Split& rows, const Split& columns, int64_t rows_in_group, const Visit& visit) {
  std::set<int64_t> seen;
  for (int r = 0; r < rows.parts(); ++r)
    for (const GroupRun& run : runs_of(rows, r, rows_in_group)) {
      const bool is_first = seen.insert(run.group).second;
      for (int c = 0; c < columns.parts(); ++c) visit(run.group, r, c, is_first);
    }
}

std::vector<std::vector<Range>> channels_by_part(const Split& rows, const Split& columns, int64_t rows_in_group,
                                                 bool first_only) {
  std::vector<std::vector<Range>> parts(static_cast<size_t>(rows.parts() * columns.parts()));
  visit_runs(rows, columns, rows_in_group, [&](int64_t group, int r, int c, bool is_first) {
    if (first_only && !is_first) return;
    for (const Range& range : columns.ranges(c))
      parts[static_cast<size_t>(r * columns.parts() + c)].push_back(
          {group * columns.size() + range.begin, group * columns.size() + range.end});
  });
  return parts;
}

bool adds_outputs(const Pads& pads) {
  return pads.left > 0 || pads.right > 0;
}

}  // namespace

std::vector<GroupRun> runs_of(const Split& rows, int part, int64_t rows_in_group) {
  std::vector<GroupRun> runs;
  for (const Range& range : rows.ranges(part))
    for (int64_t row = range.begin; row < range.end;) {
      const int64_t group = row / rows_in_group, end = std::min(range.end, (group + 1) * rows_in_group);
      if (runs.empty() || runs.back().group != group) runs.push_back({group, 0});
      runs.back().rows += end - row;
      row = end;
    }
  return runs;
}

Split channels_of_columns(const Split& rows, const Split& columns, int64_t rows_in_group, int64_t groups, int64_t dim) {
  return Split::covering(channels_by_part(rows, columns, rows_in_group, /*first_only=*/false), groups * columns.size(),
                         dim);
}

Split bias_of_columns(const Split& rows, const Split& columns, int64_t rows_in_group, int64_t groups) {
  return Split::of_ranges(channels_by_part(rows, columns, rows_in_group, /*first_only=*/true), groups * columns.size(),
                          0);
}

at::Tensor ConvKernel::operator()(const at::Tensor& x, at::TensorList parameters) const {
  const at::Tensor &weight = parameters[0], bias = bias_of_made(parameters[1], weight.size(1));
  std::vector<int64_t> over_channels(stride.size() + 1, 1);
  over_channels[0] = made[static_cast<size_t>(channel_dim())];
  const auto with_bias = [&](const at::Tensor& y) { return bias.defined() ? y + bias.view(over_channels) : y; };
  // LibTorch refuses empty space; without inputs the result is the bias alone.
  if (x.numel() == 0) return with_bias(at::zeros(made, weight.options().requires_grad(false)));

  const bool bias_is_late = std::any_of(pads.begin(), pads.end(), adds_outputs);
  const bool has_batch = channel_dim() == 1;
  const at::Tensor read = as_in_product(x);
  at::Tensor y = convolve(has_batch ? read : read.unsqueeze(0), weight, bias_is_late ? at::Tensor() : bias);
  if (!has_batch) y = y.squeeze(0);
  if (!transposed) return y;
  std::vector<int64_t> last_first;
  for (size_t dim = pads.size(); dim-- > 0;) last_first.insert(last_first.end(), {pads[dim].left, pads[dim].right});
  if (std::any_of(last_first.begin(), last_first.end(), [](int64_t n) { return n != 0; }))
    y = at::constant_pad_nd(y, last_first);
  return bias_is_late ? with_bias(y) : y;
}

at::Tensor ConvKernel::convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
  const std::vector<int64_t> none(stride.size(), 0);
  std::vector<at::Tensor> results;
  // A slice of everything is the tensor itself: backward of a slice would copy the gradient.
  const auto slice = [](const at::Tensor& t, int64_t dim, int64_t begin, int64_t count) {
    return count == t.size(dim) ? t : t.narrow(dim, begin, count);
  };
  int64_t row = 0, read = 0, written = 0;
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    while (end < runs.size() && runs[end].rows == runs[begin].rows) ++end;
    const auto groups = static_cast<int64_t>(end - begin);
    const int64_t rows = groups * runs[begin].rows, columns = groups * weight.size(1);
    const int64_t reads = transposed ? rows : columns, writes = transposed ? columns : rows;
    const std::optional<at::Tensor> own_bias =
        bias.defined() ? std::optional(slice(bias, 0, written, writes)) : std::nullopt;
    results.push_back(at::convolution(slice(x, 1, read, reads), slice(weight, 0, row, rows), own_bias, stride, padding,
                                      dilation, transposed, /*output_padding=*/none, groups));
    row += rows;
    read += reads;
    written += writes;
  }
  return results.size() == 1 ? results[0] : at::cat(results, 1);
}

at::Tensor ConvKernel::bias_of_made(const at::Tensor& bias, int64_t columns) const {
  if (!bias.defined() || bias.numel() == 0) return {};
  if (!transposed || std::all_of(owns_bias.begin(), owns_bias.end(), [](bool owns) { return owns; })) return bias;
  std::vector<at::Tensor> pieces;
  int64_t taken = 0;
  for (const bool owns : owns_bias) {
    pieces.push_back(owns ? bias.narrow(0, taken, columns) : at::zeros({columns}, bias.options().requires_grad(false)));
    if (owns) taken += columns;
  }
  return at::cat(pieces);
}

}  // namespace adjoin::nn
