#include "adjoin/nn/distributed/planes.hpp"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace adjoin::nn {
namespace {

constexpr int64_t kLanes = 16, kBlock = 64 * kLanes;  // elements that stay in the first cache

/// The sum of term(i) over [0, count), in lanes that a compiler makes vectors of.
template <class Exact, class Term>
Exact sum_of(int64_t count, const Term& term) {
  std::array<Exact, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[static_cast<size_t>(lane)] += term(i + lane);
  for (; i < count; ++i) lanes[0] += term(i);
  return std::accumulate(lanes.begin(), lanes.end(), Exact{0});
}

/// Blocks are merged as Chan, Golub and LeVeque do (1983), so that a large mean takes no digits of the variance; what the
/// differences of a block add up to is what its own mean was off by.
template <class T>
std::pair<double, double> moments_of(const T* x, int64_t count) {
  using Exact = at::opmath_type<T>;
  double mean = 0, squares = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const T* block = x + begin;
    const int64_t size = std::min(kBlock, count - begin);
    const auto size_here = static_cast<double>(size);
    const auto near =
        static_cast<Exact>(sum_of<Exact>(size, [&](int64_t i) { return static_cast<Exact>(block[i]); }) / size_here);
    const auto difference = [&](int64_t i) { return static_cast<Exact>(block[i]) - near; };
    const double off = sum_of<Exact>(size, difference);
    squares += sum_of<Exact>(size, [&](int64_t i) { return difference(i) * difference(i); }) - off * off / size_here;
    const double apart = near + off / size_here - mean, share = size_here / static_cast<double>(begin + size);
    mean += apart * share;
    squares += apart * apart * share * static_cast<double>(begin);
  }
  return {mean, squares / static_cast<double>(count)};
}

/// The numbers: mean, of_x, of_y, rest. A function of its own, since its arguments stay in registers.
template <class T, class Exact>
void combine(T* out, const T* x, const T* y, const Exact* numbers, int64_t count) {
  const Exact mean = numbers[0], of_x = numbers[1], of_y = numbers[2], rest = numbers[3];
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<T>((static_cast<Exact>(x[i]) - mean) * of_x + static_cast<Exact>(y[i]) * of_y + rest);
}

}  // namespace

std::pair<at::Tensor, at::Tensor> moments_of_planes(const at::Tensor& x) {
  const at::TensorOptions options = x.options().dtype(at::toOpMathType(x.scalar_type()));
  const at::Tensor mean = at::empty({x.size(0), x.size(1)}, options), variance = at::empty_like(mean);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "norm", [&] {
    using Exact = at::opmath_type<scalar_t>;
    const scalar_t* elements = x.const_data_ptr<scalar_t>();
    auto *means = mean.data_ptr<Exact>(), *variances = variance.data_ptr<Exact>();
    at::parallel_for(0, mean.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const auto [m, v] = moments_of(elements + plane * x.size(2), x.size(2));
        means[plane] = static_cast<Exact>(m);
        variances[plane] = static_cast<Exact>(v);
      }
    });
  });
  return {mean, variance};
}

at::Tensor combine_planes(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& of_x, const at::Tensor& y,
                          const at::Tensor& of_y, const at::Tensor& rest) {
  const at::Tensor out = at::empty_like(x);
  const at::Tensor all_numbers = at::stack({mean, of_x, of_y, rest}, 1).to(at::toOpMathType(x.scalar_type()));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "norm", [&] {
    using Exact = at::opmath_type<scalar_t>;
    const auto *xs = x.const_data_ptr<scalar_t>(), *ys = y.const_data_ptr<scalar_t>();
    auto* outs = out.data_ptr<scalar_t>();
    at::parallel_for(0, x.size(0) * x.size(1), 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t at = plane * x.size(2);
        combine(outs + at, xs + at, ys + at, all_numbers.const_data_ptr<Exact>() + 4 * (plane % x.size(1)), x.size(2));
      }
    });
  });
  return out;
}

}  // namespace adjoin::nn
