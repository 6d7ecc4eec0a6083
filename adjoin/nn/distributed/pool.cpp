#include "adjoin/nn/distributed/pool.hpp"

#include <ATen/ops/max.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/pool_kernel.hpp"

namespace adjoin::nn {
namespace {

template <size_t D, class Options>
std::vector<Window> windows_of_pool(const std::string& name, const Options& options) {
  std::vector<Window> windows;
  for (size_t d = 0; d < D; ++d) {
    Window window{.kernel = (*options.kernel_size())[d], .stride = (*options.stride())[d]};
    window.before = window.after = (*options.padding())[d];
    window.ceil_mode = options.ceil_mode();
    if constexpr (requires { options.dilation(); }) window.dilation = (*options.dilation())[d];
    require(window.before <= window.extent() / 2, [&] {
      return name + ": expected a padding of at most half of what the kernel spans, " +
             std::to_string(window.extent() / 2) + ", got " + std::to_string(window.before);
    });
    windows.push_back(window);
  }
  return windows;
}

/// How many indices each of some outputs' windows counts along one dim.
std::vector<double> counts_of(const Window& window, int64_t inputs, Range outputs, bool with_pads) {
  std::vector<double> counts;
  for (int64_t y = outputs.begin; y < outputs.end; ++y) {
    const int64_t begin = y * window.stride - window.before;
    const int64_t end = std::min(begin + window.kernel, inputs + window.after);  // ceil mode cuts the last window
    counts.push_back(
        static_cast<double>(with_pads ? end - begin : std::min(end, inputs) - std::max<int64_t>(begin, 0)));
  }
  return counts;
}

Route::Kernel kernel_of(const PoolGeometry& geometry, const std::vector<int64_t>& inputs,
                        const std::vector<Range>& outputs) {
  const std::vector<Window>& windows = geometry.windows;
  if (geometry.is_max) return [windows](const at::Tensor& x, at::TensorList) { return max_pool(x, windows); };
  if (geometry.divisor_override) {
    const auto divisor = static_cast<double>(*geometry.divisor_override);
    return [windows, divisor](const at::Tensor& x, at::TensorList) {
      return (sum_pool(x, windows) / divisor).to(x.scalar_type());
    };
  }
  at::Tensor counts = at::tensor(1.0, at::kDouble);
  for (size_t d = 0; d < outputs.size(); ++d)
    counts = counts.unsqueeze(-1) *
             at::tensor(counts_of(windows[d], inputs[d], outputs[d], geometry.count_include_pad), at::kDouble);
  return [windows, counts](const at::Tensor& x, at::TensorList) {
    const at::Tensor sums = sum_pool(x, windows);
    return (sums / counts.to(sums.options())).to(x.scalar_type());
  };
}

Route windowed_route(const PoolGeometry& geometry, const Layout& input, const LayoutRule& rule, const Grid& grid) {
  const size_t space = dims_before_space(input, geometry.windows.size());
  std::vector<Window> windows(space);
  windows.insert(windows.end(), geometry.windows.begin(), geometry.windows.end());
  std::vector<int64_t> shape;
  for (size_t dim = 0; dim < windows.size(); ++dim) shape.push_back(outputs_of(windows[dim], input.shape()[dim]));
  const auto [made, output] = output_place(input, shape, space, rule);
  HaloPlan read = plan_halo(input.shape(), made, windows, Padding::zeros);

  const std::vector<int64_t> inputs(input.shape().begin() + static_cast<std::ptrdiff_t>(space), input.shape().end());
  const double fill = geometry.is_max ? -std::numeric_limits<double>::infinity() : 0;
  const Route::Kernel kernel = kernel_of(geometry, inputs, space_made_here(made, space, grid));
  return Route(input, {std::move(read), made, output, kernel, fill}, grid);
}

/// The inputs of each output in a range, where a dim has n inputs and m outputs.
std::vector<Range> cells_of(Range outputs, int64_t n, int64_t m) {
  std::vector<Range> cells;
  for (int64_t y = outputs.begin; y < outputs.end; ++y) cells.push_back({y * n / m, ((y + 1) * n + m - 1) / m});
  return cells;
}

/// The window that describes all cells; none where they differ, or where they all read the same input.
std::optional<Window> window_of(const std::vector<Range>& cells) {
  Window window{.kernel = cells[0].size(), .stride = cells.size() > 1 ? cells[1].begin - cells[0].begin : 1};
  if (window.stride < 1) return std::nullopt;
  for (size_t i = 0; i < cells.size(); ++i)
    if (cells[i].size() != window.kernel || cells[i].begin - cells[0].begin != static_cast<int64_t>(i) * window.stride)
      return std::nullopt;
  return window;
}

/// Works cell by cell; of equal maxima the first is used, as in LibTorch's kernel.
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

Route::Kernel adaptive_kernel(std::vector<std::vector<Range>> cells, bool is_max) {
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

Route adaptive_route(const PoolGeometry& geometry, const Layout& input, const LayoutRule& rule, const Grid& grid) {
  const std::vector<int64_t>& inputs = input.shape();
  const size_t space = dims_before_space(input, geometry.outputs.size());
  std::vector<int64_t> shape = inputs;
  bool cells_differ = false;  // so that some workers may have regular windows, and others not
  for (size_t dim = space; dim < shape.size(); ++dim) {
    require(inputs[dim] >= 1, "expected at least 1 input in each dim of space");
    shape[dim] = geometry.outputs[dim - space].value_or(inputs[dim]);
    cells_differ = cells_differ || inputs[dim] % shape[dim] != 0;
  }
  const auto [made, output] = output_place(input, shape, space, rule);
  HaloPlan read = plan_needed(inputs, made, space, [&](size_t dim, Range outputs) {
    const std::vector<Range> cells = cells_of(outputs, inputs[dim], shape[dim]);
    return Range{cells.front().begin, cells.back().end};
  });
  std::vector<std::vector<Range>> cells;
  const std::vector<Range> mine = space_made_here(made, space, grid);
  for (size_t d = 0; d < mine.size(); ++d) cells.push_back(cells_of(mine[d], inputs[space + d], shape[space + d]));
  return Route(
      input,
      {std::move(read), made, output, adaptive_kernel(std::move(cells), geometry.is_max), /*fill=*/0, cells_differ},
      grid);
}

}  // namespace

template <size_t D>
PoolGeometry geometry_of(const torch::nn::MaxPoolOptions<D>& options) {
  const std::string name = "MaxPool" + std::to_string(D) + "d";
  return {.name = name, .is_max = true, .windows = windows_of_pool<D>(name, options)};
}

template <size_t D>
PoolGeometry geometry_of(const torch::nn::AvgPoolOptions<D>& options) {
  const std::string name = "AvgPool" + std::to_string(D) + "d";
  require(options.divisor_override() != 0, [&] { return name + ": expected a divisor other than 0"; });
  return {.name = name,
          .is_max = false,
          .windows = windows_of_pool<D>(name, options),
          .count_include_pad = options.count_include_pad(),
          .divisor_override = D == 1 ? std::nullopt : options.divisor_override()};  // torch::nn's has none for one dim
}

template PoolGeometry geometry_of(const torch::nn::MaxPoolOptions<1>&);
template PoolGeometry geometry_of(const torch::nn::MaxPoolOptions<2>&);
template PoolGeometry geometry_of(const torch::nn::MaxPoolOptions<3>&);
template PoolGeometry geometry_of(const torch::nn::AvgPoolOptions<1>&);
template PoolGeometry geometry_of(const torch::nn::AvgPoolOptions<2>&);
template PoolGeometry geometry_of(const torch::nn::AvgPoolOptions<3>&);

PoolGeometry adaptive_pool(bool is_max, std::vector<std::optional<int64_t>> outputs) {
  const std::string name = (is_max ? "AdaptiveMaxPool" : "AdaptiveAvgPool") + std::to_string(outputs.size()) + "d";
  for (const auto& count : outputs)
    require(count.value_or(1) >= 1,
            [&] { return name + ": expected at least 1 output, got " + std::to_string(*count); });
  return {.name = name, .is_max = is_max, .outputs = std::move(outputs)};
}

std::function<Route(const Layout& input)> plan_of(PoolGeometry geometry, const Grid& grid, LayoutRule output) {
  const auto route = geometry.outputs.empty() ? windowed_route : adaptive_route;
  return [=, geometry = std::move(geometry), output = std::move(output)](const Layout& input) {
    return route(geometry, input, output, grid);
  };
}

}  // namespace adjoin::nn
