#include "adjoin/nn/distributed/adaptive_pool.hpp"

#include <ATen/ops/max.h>
#include <ATen/ops/stack.h>

#include <tuple>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/pool_kernel.hpp"

namespace adjoin::nn {
namespace {

/// The inputs of each output of a range, of n inputs and m outputs in all.
std::vector<Range> cells_of(Range outputs, int64_t n, int64_t m) {
  std::vector<Range> cells;
  for (int64_t y = outputs.begin; y < outputs.end; ++y) cells.push_back({y * n / m, ((y + 1) * n + m - 1) / m});
  return cells;
}

/// The one window that all cells are; none where they differ, or where one input is read again and again.
std::optional<Window> window_of(const std::vector<Range>& cells) {
  Window window{.kernel = cells[0].size(), .stride = cells.size() > 1 ? cells[1].begin - cells[0].begin : 1};
  if (window.stride < 1) return std::nullopt;
  for (size_t i = 0; i < cells.size(); ++i)
    if (cells[i].size() != window.kernel || cells[i].begin - cells[0].begin != static_cast<int64_t>(i) * window.stride)
      return std::nullopt;
  return window;
}

/// Cell by cell; of equal maxima the first is taken, as by LibTorch's kernel.
at::Tensor pool_cells(const at::Tensor& x, const std::vector<std::vector<Range>>& cells, size_t dim, bool is_max) {
  const auto space = static_cast<int64_t>(cells.size());
  if (dim == cells.size()) {
    const at::Tensor cell = x.flatten(-space);
    return is_max ? std::get<0>(at::max(cell, -1)) : cell.mean(-1);
  }
  const auto at_dim = x.dim() - space + static_cast<int64_t>(dim);
  std::vector<at::Tensor> results;
  for (const Range& cell : cells[dim])
    results.push_back(
        pool_cells(x.narrow(at_dim, cell.begin - cells[dim][0].begin, cell.size()), cells, dim + 1, is_max));
  return at::stack(results, x.dim() - space);
}

Route::Kernel kernel_of(std::vector<std::vector<Range>> cells, bool is_max) {
  std::vector<Window> windows;
  double count = 1;
  for (const auto& of_dim : cells)
    if (const auto window = of_dim.empty() ? std::nullopt : window_of(of_dim)) {
      windows.push_back(*window);
      count *= static_cast<double>(window->kernel);
    }
  return [=, cells = std::move(cells)](const at::Tensor& x, at::TensorList) {
    if (windows.size() < cells.size()) return pool_cells(x, cells, 0, is_max);
    return is_max ? max_pool(x, windows) : (sum_pool(x, windows) / count).to(x.scalar_type());
  };
}

}  // namespace

AdaptivePoolNdImpl::AdaptivePoolNdImpl(AdaptivePoolGeometry geometry, const Grid& grid, LayoutRule output)
    : geometry_(std::move(geometry)), output_(std::move(output)), routes_(geometry_.name, grid) {
  for (const auto& outputs : geometry_.outputs)
    require(outputs.value_or(1) >= 1,
            [&] { return geometry_.name + ": expected at least 1 output, got " + std::to_string(*outputs); });
}

DistributedTensor AdaptivePoolNdImpl::forward(const DistributedTensor& x) {
  routes_.check_type(x);
  return routes_.of(x.layout, [this](const Layout& input) { return plan(input); })(x, {});
}

Route AdaptivePoolNdImpl::plan(const Layout& input) const {
  const std::vector<int64_t>& inputs = input.shape();
  const size_t space = dims_before_space(input, geometry_.outputs.size());
  std::vector<int64_t> shape = inputs;
  for (size_t dim = space; dim < shape.size(); ++dim) {
    require(inputs[dim] >= 1, "expected at least 1 input in each dim of space");
    shape[dim] = geometry_.outputs[dim - space].value_or(inputs[dim]);
  }
  const auto [made, output] = output_place(input, shape, space, output_);
  HaloPlan read = plan_needed(inputs, made, space, [&](size_t dim, Range outputs) {
    const std::vector<Range> cells = cells_of(outputs, inputs[dim], shape[dim]);
    return Range{cells.front().begin, cells.back().end};
  });
  std::vector<std::vector<Range>> cells;
  const std::vector<Range> mine = space_made_here(made, space, routes_.grid());
  for (size_t d = 0; d < mine.size(); ++d) cells.push_back(cells_of(mine[d], inputs[space + d], shape[space + d]));
  return Route(input, {std::move(read), made, output, kernel_of(std::move(cells), geometry_.is_max)}, routes_.grid());
}

}  // namespace adjoin::nn
