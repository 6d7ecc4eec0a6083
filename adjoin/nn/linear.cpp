#include "adjoin/nn/linear.hpp"

#include <ATen/ops/linear.h>

#include <cmath>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/all_reduce.hpp"
#include "adjoin/movement/blocks.hpp"
#include "adjoin/nn/gathered_linear.hpp"

namespace adjoin::nn {
namespace {

/// Checks the sizes and completes the options: the split of the dim `dim` of the weight, and the deviation.
ParallelLinearOptions completed(const char* layer, ParallelLinearOptions options, const Communicator& group,
                                int64_t dim) {
  const int64_t features = dim == 0 ? options.out_features : options.in_features;
  require(options.in_features >= 1 && options.out_features >= 1, [&] {
    return std::string(layer) + ": expected at least 1 feature in and out, got " + std::to_string(options.in_features) +
           " and " + std::to_string(options.out_features);
  });
  if (!options.split) options.split = Split::balanced(features, group.size(), dim);
  require(options.split->size() == features && options.split->parts() == group.size(), [&] {
    return std::string(layer) + ": expected a split of " + std::to_string(features) + " features into " +
           std::to_string(group.size()) + " parts, got " + std::to_string(options.split->size()) + " into " +
           std::to_string(options.split->parts());
  });
  options.split = options.split->along(dim);
  if (!options.deviation) options.deviation = 1 / std::sqrt(3.0 * static_cast<double>(options.in_features));
  return options;
}

ShardedModule::Piece weight_piece(const ParallelLinearOptions& options, const Grid& grid, const std::string& axis) {
  return {along(grid, axis, {options.out_features, options.in_features}, options.split), grid,
          Initial::normal(*options.deviation)};
}

ShardedModule::Piece bias_piece(const ParallelLinearOptions& options, const Grid& grid, const std::string& axis,
                                const std::optional<Split>& split) {
  return {along(grid, axis, {options.out_features}, split), grid, Initial::zeros()};
}

}  // namespace

at::Tensor column_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                  const Communicator& group, const std::optional<Split>& gathered_split) {
  const at::Tensor y = at::linear(copy_to(as_in_product(x), group), weight, bias);
  return gathered_split ? gather_from(y, group, gathered_split->along(y.dim() - 1)) : y;
}

at::Tensor row_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const Communicator& group) {
  const at::Tensor y = reduce_from(at::linear(x, weight), group);
  return bias.defined() ? y + bias : y;
}

at::Tensor row_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const Communicator& group, const Split& rows) {
  const at::Tensor y = reduce_scatter(at::linear(x, weight), group, rows);
  return bias.defined() ? y + bias : y;
}

Split stacked(const std::vector<Split>& splits) {
  require(!splits.empty(), "stacked: expected at least 1 split, got none");
  std::vector<std::vector<Range>> parts(static_cast<size_t>(splits.front().parts()));
  int64_t first = 0;
  for (const Split& split : splits) {
    require(split.parts() == splits.front().parts(), [&] {
      return "stacked: expected splits into " + std::to_string(splits.front().parts()) + " parts, got one into " +
             std::to_string(split.parts());
    });
    for (int part = 0; part < split.parts(); ++part)
      for (const Range& range : split.ranges(part))
        parts[static_cast<size_t>(part)].push_back({first + range.begin, first + range.end});
    first += split.size();
  }
  return Split::of_ranges(std::move(parts), first, 0);
}

ColumnParallelLinearImpl::ColumnParallelLinearImpl(ParallelLinearOptions options, const Grid& grid,
                                                   const std::string& axis)
    : options_(completed("ColumnParallelLinear", std::move(options), grid.axis(axis), 0)), group_(grid.axis(axis)) {
  weight_ = register_piece("weight", weight_piece(options_, grid, axis), options_.tensor);
  if (options_.bias) bias_ = register_piece("bias", bias_piece(options_, grid, axis, options_.split), options_.tensor);
}

at::Tensor ColumnParallelLinearImpl::forward(const at::Tensor& x, std::optional<int64_t> rows) {
  require(rows.has_value() == options_.split_rows,
          "ColumnParallelLinear: expected the number of rows where they are split, and only there");
  if (rows) return gathered_linear(x, weight_, bias_, group_, Split::balanced(*rows, group_.size(), 0));
  return column_parallel_linear(x, weight_, bias_, group_,
                                options_.gather_output ? options_.split : std::optional<Split>());
}

RowParallelLinearImpl::RowParallelLinearImpl(ParallelLinearOptions options, const Grid& grid, const std::string& axis)
    : options_(completed("RowParallelLinear", std::move(options), grid.axis(axis), 1)), group_(grid.axis(axis)) {
  weight_ = register_piece("weight", weight_piece(options_, grid, axis), options_.tensor);
  if (!options_.bias) return;  // added once, after the sum, so every rank holds all of it
  ShardedModule::Piece piece = bias_piece(options_, grid, axis, {});
  if (options_.split_rows) piece.layout = copied_on(grid.shape(), piece.layout.shape());
  bias_ = register_piece("bias", std::move(piece), options_.tensor);
}

at::Tensor RowParallelLinearImpl::forward(const at::Tensor& x) {
  if (options_.split_rows)
    return row_parallel_linear(x, weight_, bias_, group_, Split::balanced(x.size(0), group_.size(), 0));
  return row_parallel_linear(x, weight_, bias_, group_);
}

}  // namespace adjoin::nn
