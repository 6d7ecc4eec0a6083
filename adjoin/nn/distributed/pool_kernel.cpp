#include "adjoin/nn/distributed/pool_kernel.hpp"
#include "adjoin/nn/distributed/widened.hpp"

#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool3d.h>

namespace adjoin::nn {
namespace {

std::vector<int64_t> of_each(const std::vector<Window>& windows, int64_t Window::*member) {
  std::vector<int64_t> numbers;
  for (const Window& window : windows) numbers.push_back(window.*member);
  return numbers;
}

}  // namespace

at::Tensor max_pool(const at::Tensor& x, const std::vector<Window>& windows) {
  const auto kernel = of_each(windows, &Window::kernel), stride = of_each(windows, &Window::stride),
             dilation = of_each(windows, &Window::dilation);
  const std::vector<int64_t> none(windows.size(), 0);
  if (windows.size() == 1) return at::max_pool1d(x, kernel, stride, none, dilation);
  return windows.size() == 2 ? at::max_pool2d(x, kernel, stride, none, dilation)
                             : at::max_pool3d(x, kernel, stride, none, dilation);
}

// LibTorch can sum one dim only if it also divides, so one dim is treated as two.
at::Tensor sum_pool(const at::Tensor& input, const std::vector<Window>& windows) {
  const at::Tensor x = widened(input);
  const auto kernel = of_each(windows, &Window::kernel), stride = of_each(windows, &Window::stride);
  const auto sums = [](const auto& pool, const at::Tensor& t, at::IntArrayRef k, at::IntArrayRef s) {
    return pool(t, k, s, /*padding=*/std::vector<int64_t>(k.size(), 0), /*ceil_mode=*/false,
                /*count_include_pad=*/true, /*divisor_override=*/1);
  };
  const auto two = [](auto&&... a) { return at::avg_pool2d(a...); };
  if (windows.size() == 1) return sums(two, x.unsqueeze(-2), {1, kernel[0]}, {1, stride[0]}).squeeze(-2);
  if (windows.size() == 2) return sums(two, x, kernel, stride);
  return sums([](auto&&... a) { return at::avg_pool3d(a...); }, x, kernel, stride);
}

}  // namespace adjoin::nn
