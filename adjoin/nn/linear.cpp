#include "adjoin/nn/linear.hpp"

#include <ATen/TensorOperators.h>

#include <cmath>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/all_reduce.hpp"
#include "adjoin/movement/blocks.hpp"
#include "adjoin/nn/linear_product.hpp"

namespace adjoin::nn {
namespace {

using Cut = ParallelLinearOptions::Cut;

/// Checks the sizes and completes the options: the deviation, and the split along the dim of the weight that it cuts.
ParallelLinearOptions completed(ParallelLinearOptions options, const Communicator& group) {
  require(options.in_features >= 1 && options.out_features >= 1, [&] {
    return "ParallelLinear: expected at least 1 feature in and out, got " + std::to_string(options.in_features) +
           " and " + std::to_string(options.out_features);
  });
  if (!options.deviation) options.deviation = 1 / std::sqrt(3.0 * static_cast<double>(options.in_features));
  if (options.cut == Cut::none) {
    require(!options.split, "ParallelLinear: expected no split, because cut is Cut::none");
    return options;
  }
  const int64_t dim = options.cut == Cut::outputs ? 0 : 1;
  const int64_t features = dim == 0 ? options.out_features : options.in_features;
  if (!options.split) options.split = Split::balanced(features, group.size(), dim);
  require(options.split->size() == features && options.split->parts() == group.size(), [&] {
    return "ParallelLinear: expected a split of " + std::to_string(features) + " features into " +
           std::to_string(group.size()) + " parts, got " + std::to_string(options.split->size()) + " into " +
           std::to_string(options.split->parts());
  });
  options.split = options.split->along(dim);
  return options;
}

}  // namespace

at::Tensor column_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                  const Communicator& group, const std::optional<Split>& rows) {
  if (rows) return linear_product(x, weight, bias, SplitRows{group, *rows});
  return linear_product(copy_to(as_in_product(x), group), weight, bias);
}

at::Tensor row_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const Communicator& group, const std::optional<Split>& rows) {
  const at::Tensor summand = linear_product(x, weight);
  const at::Tensor y = rows ? reduce_scatter(summand, group, *rows) : reduce_from(summand, group);
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

ParallelLinearImpl::ParallelLinearImpl(ParallelLinearOptions options, const Grid& grid, const std::string& axis)
    : group_(options.cut == Cut::none ? Communicator() : grid.axis(axis)) {
  options_ = completed(std::move(options), group_);
  const auto piece = [&](std::vector<int64_t> shape, const std::optional<Split>& split, Initial initial) {
    // A tensor that each rank has whole and uses for its own rows is copied, not replicated.
    Layout layout = !split && options_.split_rows ? copied_on(grid.shape(), std::move(shape))
                                                  : cut_along(grid, axis, std::move(shape), split);
    return Piece{std::move(layout), grid, initial};
  };
  weight_ = register_piece(
      "weight",
      piece({options_.out_features, options_.in_features}, options_.split, Initial::normal(*options_.deviation)),
      options_.tensor);
  if (!options_.bias) return;
  // Where inputs are cut, the bias is added once, after the sum, so every rank holds all of it.
  const std::optional<Split> of_bias = options_.cut == Cut::outputs ? options_.split : std::nullopt;
  bias_ = register_piece("bias", piece({options_.out_features}, of_bias, Initial::zeros()), options_.tensor);
}

at::Tensor ParallelLinearImpl::forward(const at::Tensor& x, const LocalRows& rows) {
  if (options_.cut == Cut::none) return linear_product(x, weight_, bias_);
  const bool is_column = options_.cut == Cut::outputs;
  std::optional<Split> split;
  if (options_.split_rows) split = Split::balanced(is_column ? rows.size() : x.size(0), group_.size(), 0);
  return (is_column ? column_parallel_linear : row_parallel_linear)(x, weight_, bias_, group_, split);
}

}  // namespace adjoin::nn
