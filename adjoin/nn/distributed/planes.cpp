#include "adjoin/nn/distributed/planes.hpp"
#include "adjoin/movement/on_threads.hpp"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace adjoin::nn {
namespace {

constexpr int64_t kLanes = 16, kBlock = 64 * kLanes;  // elements that stay in the first cache

/// The sum of term(i) over [0, count), in lanes that a compiler can turn into vectors.
template <class T, class Term>
T sum_of(int64_t count, const Term& term) {
  std::array<T, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[static_cast<size_t>(lane)] += term(i + lane);
  for (; i < count; ++i) lanes[0] += term(i);
  return std::accumulate(lanes.begin(), lanes.end(), T{0});
}

/// The count of some numbers, their mean, and the sum of their squared differences from it.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  /// By the method of Chan, Golub and LeVeque (1983), so that a large mean loses no digits of the variance.
  void add(const Moments& other) {
    if (other.count == 0) return;
    const double apart = other.mean - mean, share = other.count / (count + other.count);
    mean += apart * share;
    squares += other.squares + apart * apart * share * count;
    count += other.count;
  }
};

/// Works block by block; the sum of a block's differences corrects the error of its mean.
template <class T>
Moments moments_of(const T* x, int64_t count) {
  Moments all;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const T* block = x + begin;
    const int64_t size = std::min(kBlock, count - begin);
    const auto size_here = static_cast<double>(size);
    const auto near = static_cast<T>(sum_of<T>(size, [&](int64_t i) { return block[i]; }) / size_here);
    const auto difference = [&](int64_t i) { return block[i] - near; };
    const double off = sum_of<T>(size, difference);
    const double squares = sum_of<T>(size, [&](int64_t i) { return difference(i) * difference(i); });
    all.add({size_here, near + off / size_here, squares - off * off / size_here});
  }
  return all;
}

/// The numbers are mean, of_x, of_y, rest. It is a separate function so that its arguments stay in registers.
template <class T>
void combine(T* out, const T* x, const T* y, const double* numbers, int64_t count) {
  const auto mean = static_cast<T>(numbers[0]), of_x = static_cast<T>(numbers[1]), of_y = static_cast<T>(numbers[2]),
             rest = static_cast<T>(numbers[3]);
  if (y == nullptr)
    for (int64_t i = 0; i < count; ++i) out[i] = (x[i] - mean) * of_x + rest;
  else
    for (int64_t i = 0; i < count; ++i) out[i] = (x[i] - mean) * of_x + y[i] * of_y + rest;
}

/// Calls visit(type, index of the plane in all n, index of its numbers, begin of its elements) for each plane, in parallel.
template <class Visit>
void for_each_plane(const at::Tensor& x, const Visit& visit) {
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "norm", [&] {
    on_threads(x.size(0) * x.size(1), 1, [&](Range part) {
      for (int64_t plane = part.begin; plane < part.end; ++plane)
        visit(scalar_t(), plane, plane % x.size(1), plane * x.size(2));
    });
  });
}

/// Numbers of planes, for all their elements.
at::Tensor for_elements(const at::Tensor& of_planes) {
  return of_planes.unsqueeze(1);
}

constexpr std::array<int64_t, 2> kOfPlane{0, 2};  // the dims of its elements

at::Tensor two_for_each(int64_t planes) {
  return at::zeros({2, planes}, at::kDouble);
}

}  // namespace

at::Tensor moments_of_planes(const at::Tensor& x) {
  const int64_t planes = x.size(1);
  if (!x.is_cpu()) {
    if (x.numel() == 0) return two_for_each(planes).to(x.device());
    const at::Tensor precise = x.to(at::kDouble), mean = precise.mean(kOfPlane);
    return at::stack({mean, (precise - for_elements(mean)).square().mean(kOfPlane)});
  }
  std::vector<Moments> each(static_cast<size_t>(x.size(0) * planes));
  for_each_plane(x, [&](auto type, int64_t at, int64_t, int64_t begin) {
    each[static_cast<size_t>(at)] = moments_of(x.const_data_ptr<decltype(type)>() + begin, x.size(2));
  });
  const at::Tensor result = two_for_each(planes);
  auto* const numbers = result.data_ptr<double>();
  for (int64_t plane = 0; plane < planes; ++plane) {
    Moments all;
    for (size_t at = static_cast<size_t>(plane); at < each.size(); at += static_cast<size_t>(planes)) all.add(each[at]);
    if (all.count == 0) continue;
    numbers[plane] = all.mean;
    numbers[planes + plane] = all.squares / all.count;
  }
  return result;
}

at::Tensor merged_moments(const at::Tensor& moments, const std::vector<int64_t>& counts) {
  const int64_t planes = moments.size(2);
  if (!moments.is_cpu()) {
    const at::Tensor sizes = at::tensor(counts, at::kDouble).to(moments.device()).unsqueeze(1),
                     all = sizes.sum().clamp_min(1), means = moments.select(1, 0), mean = (means * sizes).sum(0) / all;
    return at::stack({mean, ((moments.select(1, 1) + (means - mean).square()) * sizes).sum(0) / all});
  }
  const at::Tensor result = two_for_each(planes), all_moments = moments.contiguous();
  const auto* const given = all_moments.const_data_ptr<double>();
  auto* const numbers = result.data_ptr<double>();
  for (int64_t plane = 0; plane < planes; ++plane) {
    Moments all;
    for (size_t worker = 0; worker < counts.size(); ++worker) {
      const double* const here = given + static_cast<int64_t>(worker) * 2 * planes + plane;
      const auto count = static_cast<double>(counts[worker]);
      all.add({count, here[0], here[planes] * count});
    }
    if (all.count == 0) continue;
    numbers[plane] = all.mean;
    numbers[planes + plane] = all.squares / all.count;
  }
  return result;
}

at::Tensor gradient_sums(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& mean) {
  const int64_t planes = x.size(1);
  if (!x.is_cpu()) {
    const at::Tensor of = dy.to(at::kDouble);
    return at::stack({of.sum(kOfPlane), (of * (x.to(at::kDouble) - for_elements(mean))).sum(kOfPlane)});
  }
  std::vector<std::array<double, 2>> each(static_cast<size_t>(x.size(0) * planes));
  const auto* const means = mean.const_data_ptr<double>();
  for_each_plane(x, [&](auto type, int64_t at, int64_t plane, int64_t begin) {
    using T = decltype(type);
    const T *const xs = x.const_data_ptr<T>() + begin, *const ys = dy.const_data_ptr<T>() + begin;
    const auto centre = static_cast<T>(means[plane]);
    auto& [sum, product] = each[static_cast<size_t>(at)];
    for (int64_t block = 0; block < x.size(2); block += kBlock) {
      const int64_t size = std::min(kBlock, x.size(2) - block);
      sum += sum_of<T>(size, [&](int64_t i) { return ys[block + i]; });
      product += sum_of<T>(size, [&](int64_t i) { return ys[block + i] * (xs[block + i] - centre); });
    }
  });
  const at::Tensor result = two_for_each(planes);
  auto* const numbers = result.data_ptr<double>();
  for (size_t at = 0; at < each.size(); ++at)
    for (size_t which = 0; which < 2; ++which)
      numbers[static_cast<int64_t>(which) * planes + static_cast<int64_t>(at) % planes] += each[at][which];
  return result;
}

at::Tensor combine_planes(const at::Tensor& x, const at::Tensor& y, const at::Tensor& numbers) {
  if (!x.is_cpu()) {
    const at::Tensor of = numbers.to(x.scalar_type());
    const auto number = [&](int64_t which) { return for_elements(of.select(1, which)); };
    const at::Tensor made = (x - number(0)) * number(1) + number(3);
    return y.defined() ? made + y * number(2) : made;
  }
  const at::Tensor out = at::empty_like(x);
  const auto* const of_planes = numbers.const_data_ptr<double>();
  for_each_plane(x, [&](auto type, int64_t, int64_t plane, int64_t begin) {
    using T = decltype(type);
    const T* const ys = y.defined() ? y.const_data_ptr<T>() + begin : nullptr;
    combine<T>(out.data_ptr<T>() + begin, x.const_data_ptr<T>() + begin, ys, of_planes + 4 * plane, x.size(2));
  });
  return out;
}

}  // namespace adjoin::nn
