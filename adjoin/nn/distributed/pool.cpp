#include "adjoin/nn/distributed/pool.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>

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

/// How many indices the windows of some outputs count along one dim.
std::vector<double> counts_of(const Window& window, int64_t inputs, Range outputs, bool with_pads) {
  std::vector<double> counts;
  for (int64_t y = outputs.begin; y < outputs.end; ++y) {
    const int64_t begin = y * window.stride - window.before;
    const int64_t end = std::min(begin + window.kernel, inputs + window.after);  // a last window of ceil mode is cut
    counts.push_back(
        static_cast<double>(with_pads ? end - begin : std::min(end, inputs) - std::max<int64_t>(begin, 0)));
  }
  return counts;
}

}  // namespace

template <size_t D>
PoolGeometry geometry_of(const torch::nn::MaxPoolOptions<D>& options) {
  const std::string name = "MaxPool" + std::to_string(D) + "d";
  return {.name = name, .windows = windows_of_pool<D>(name, options), .is_max = true};
}

template <size_t D>
PoolGeometry geometry_of(const torch::nn::AvgPoolOptions<D>& options) {
  const std::string name = "AvgPool" + std::to_string(D) + "d";
  require(options.divisor_override() != 0, [&] { return name + ": expected a divisor other than 0"; });
  return {.name = name,
          .windows = windows_of_pool<D>(name, options),
          .is_max = false,
          .count_include_pad = options.count_include_pad(),
          .divisor_override = D == 1 ? std::nullopt : options.divisor_override()};  // torch::nn's has none for one dim
}

template PoolGeometry geometry_of(const torch::nn::MaxPoolOptions<1>&);
template PoolGeometry geometry_of(const torch::nn::MaxPoolOptions<2>&);
template PoolGeometry geometry_of(const torch::nn::MaxPoolOptions<3>&);
template PoolGeometry geometry_of(const torch::nn::AvgPoolOptions<1>&);
template PoolGeometry geometry_of(const torch::nn::AvgPoolOptions<2>&);
template PoolGeometry geometry_of(const torch::nn::AvgPoolOptions<3>&);

PoolNdImpl::PoolNdImpl(PoolGeometry geometry, const Grid& grid, LayoutRule output)
    : geometry_(std::move(geometry)), output_(std::move(output)), routes_(geometry_.name, grid) {}

DistributedTensor PoolNdImpl::forward(const DistributedTensor& x) {
  routes_.check_type(x);
  return routes_.of(x.layout, [this](const Layout& input) { return plan(input); })(x, {});
}

Route PoolNdImpl::plan(const Layout& input) const {
  const size_t space = dims_before_space(input, geometry_.windows.size());
  std::vector<Window> windows(space);
  windows.insert(windows.end(), geometry_.windows.begin(), geometry_.windows.end());
  std::vector<int64_t> shape;
  for (size_t dim = 0; dim < windows.size(); ++dim) shape.push_back(outputs_of(windows[dim], input.shape()[dim]));
  const auto [made, output] = output_place(input, shape, space, output_);
  HaloPlan read = plan_halo(input.shape(), made, windows, Padding::zeros);

  const std::vector<Range> mine = space_made_here(made, space, routes_.grid());
  const std::vector<int64_t> inputs(input.shape().begin() + static_cast<std::ptrdiff_t>(space), input.shape().end());
  const double fill = geometry_.is_max ? -std::numeric_limits<double>::infinity() : 0;
  return Route(input, {std::move(read), made, output, kernel(inputs, mine), fill}, routes_.grid());
}

Route::Kernel PoolNdImpl::kernel(const std::vector<int64_t>& inputs, const std::vector<Range>& outputs) const {
  const std::vector<Window>& windows = geometry_.windows;
  if (geometry_.is_max) return [windows](const at::Tensor& x, at::TensorList) { return max_pool(x, windows); };
  if (geometry_.divisor_override) {
    const auto divisor = static_cast<double>(*geometry_.divisor_override);
    return [windows, divisor](const at::Tensor& x, at::TensorList) {
      return (sum_pool(x, windows) / divisor).to(x.scalar_type());
    };
  }
  at::Tensor counts = at::tensor(1.0, at::kDouble);
  for (size_t d = 0; d < outputs.size(); ++d)
    counts = counts.unsqueeze(-1) *
             at::tensor(counts_of(windows[d], inputs[d], outputs[d], geometry_.count_include_pad), at::kDouble);
  return [windows, counts](const at::Tensor& x, at::TensorList) {
    const at::Tensor sums = sum_pool(x, windows);
    return (sums / counts.to(sums.scalar_type())).to(x.scalar_type());
  };
}

}  // namespace adjoin::nn
