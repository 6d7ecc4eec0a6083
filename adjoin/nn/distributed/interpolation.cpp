#include "adjoin/nn/distributed/interpolation.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/on_threads.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::nn {
namespace {

/// A map along the middle dim of a block [outer, n, inner].
template <class T>
struct DimMap {
  const int64_t* index;  // [outputs, taps]
  std::vector<T> weight;
  int64_t taps, inputs, outputs, outer, inner;

  void make(const T* in, T* out) const {
    taps == 1 ? make<1>(in, out) : taps == 2 ? make<2>(in, out) : make<4>(in, out);
  }

  /// The number of taps is known at compile time, so that they are added in registers.
  template <int64_t kTaps>
  void make(const T* in, T* out) const {
    for (int64_t o = 0; o < outer; ++o, in += inputs * inner, out += outputs * inner)
      for (int64_t y = 0; y < outputs; ++y)
        for (int64_t i = 0; i < inner; ++i) {
          T sum = 0;
          for (int64_t tap = y * kTaps; tap < (y + 1) * kTaps; ++tap) sum += weight[tap] * in[index[tap] * inner + i];
          out[y * inner + i] = sum;
        }
  }

  void give_back(const T* out, T* in) const {
    std::fill_n(in, outer * inputs * inner, T(0));
    for (int64_t o = 0; o < outer; ++o, in += inputs * inner, out += outputs * inner)
      for (int64_t tap = 0; tap < outputs * taps; ++tap) {
        const T* const from = out + tap / taps * inner;
        T* const to = in + index[tap] * inner;
        const T share = weight[tap];
        for (int64_t i = 0; i < inner; ++i) to[i] += share * from[i];
      }
  }
};

int64_t product_of(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

Range read_by(const Taps& taps) {
  Range range{taps.index[0][0], taps.index[0][0]};
  for (const auto& indices : taps.index)
    for (const int64_t index : indices) range = {std::min(range.begin, index), std::max(range.end, index + 1)};
  return range;
}

Interpolation::Interpolation(const std::vector<Taps>& dims) {
  for (const Taps& taps : dims) {
    const Range read = read_by(taps);
    Dim dim{.inputs = read.size(),
            .outputs = static_cast<int64_t>(taps.index[0].size()),
            .taps = static_cast<int64_t>(taps.index.size())};
    for (size_t y = 0; y < taps.index[0].size(); ++y)
      for (size_t tap = 0; tap < taps.index.size(); ++tap) {
        dim.index.push_back(taps.index[tap][y] - read.begin);
        dim.weight.push_back(taps.weight.empty() ? 1 : taps.weight[tap][y]);
      }
    dims_.push_back(std::move(dim));
  }
}

at::Tensor Interpolation::operator()(const at::Tensor& x) const {
  const Interpolation self = *this;
  return apply({[self](const at::Tensor& from) { return self.mapped(from, /*is_adjoint=*/false); },
                [self](const at::Tensor& from) { return self.mapped(from, /*is_adjoint=*/true); }},
               x);
}

at::Tensor Interpolation::mapped(const at::Tensor& x, bool is_adjoint) const {
  const bool is_double = x.scalar_type() == at::kDouble;
  if (!x.is_cpu()) return mapped_by_operations(plain("interpolation", x), is_adjoint);
  const at::Tensor from = plain("interpolation", x).to(is_double ? at::kDouble : at::kFloat).contiguous();
  std::vector<int64_t> shape = x.sizes().vec();
  for (size_t d = 0; d < dims_.size(); ++d)
    shape[shape.size() - dims_.size() + d] = is_adjoint ? dims_[d].inputs : dims_[d].outputs;
  const at::Tensor to = at::empty(shape, from.options());
  is_double ? map_planes<double>(from, to, is_adjoint) : map_planes<float>(from, to, is_adjoint);
  return to.to(x.scalar_type());
}

at::Tensor Interpolation::mapped_by_operations(at::Tensor x, bool is_adjoint) const {
  const at::ScalarType type = x.scalar_type();
  if (type != at::kDouble) x = x.to(at::kFloat);
  for (size_t n = 0; n < dims_.size(); ++n) {
    const size_t d = is_adjoint ? n : dims_.size() - 1 - n;
    const Dim& dim = dims_[d];
    const int64_t at = x.dim() - std::ssize(dims_) + static_cast<int64_t>(d);
    std::vector<int64_t> shape = x.sizes().vec(), along(static_cast<size_t>(x.dim()), 1);
    shape[static_cast<size_t>(at)] = is_adjoint ? dim.inputs : dim.outputs;
    along[static_cast<size_t>(at)] = dim.outputs;
    const at::Tensor index = at::tensor(dim.index, at::kLong).to(x.device()).view({dim.outputs, dim.taps});
    const at::Tensor weight = at::tensor(dim.weight, at::kDouble).to(x.options()).view({dim.outputs, dim.taps});
    at::Tensor y = at::zeros(shape, x.options());
    for (int64_t tap = 0; tap < dim.taps; ++tap) {
      const at::Tensor read = index.select(1, tap), share = weight.select(1, tap).reshape(along);
      is_adjoint ? y.index_add_(at, read, x * share) : y.add_(x.index_select(at, read) * share);
    }
    x = y;
  }
  return x.to(type);
}

template <class T>
void Interpolation::map_planes(const at::Tensor& x, const at::Tensor& y, bool is_adjoint) const {
  std::vector<int64_t> shape(x.sizes().end() - static_cast<std::ptrdiff_t>(dims_.size()), x.sizes().end());
  const int64_t from_plane = product_of(shape), planes = from_plane > 0 ? x.numel() / from_plane : 0;
  int64_t largest = from_plane;
  std::vector<DimMap<T>> steps;
  for (size_t n = 0; n < dims_.size(); ++n) {
    // Forward begins with the last dim: if there are more outputs than inputs, it then has the fewest rows.
    const size_t d = is_adjoint ? n : dims_.size() - 1 - n;
    const Dim& dim = dims_[d];
    steps.push_back({dim.index.data(), std::vector<T>(dim.weight.begin(), dim.weight.end()), dim.taps, dim.inputs,
                     dim.outputs, product_of(std::span(shape).first(d)), product_of(std::span(shape).subspan(d + 1))});
    shape[d] = is_adjoint ? dim.inputs : dim.outputs;
    largest = std::max(largest, product_of(shape));
  }
  const int64_t to_plane = product_of(shape);
  const T* const all_from = x.const_data_ptr<T>();
  T* const all_to = y.mutable_data_ptr<T>();
  on_threads(planes, 1, [&](Range part) {
    std::vector<T> between(static_cast<size_t>(largest)), next(between.size());
    for (int64_t plane = part.begin; plane < part.end; ++plane) {
      const T* from = all_from + plane * from_plane;
      for (const DimMap<T>& step : steps) {
        T* const to = &step == &steps.back() ? all_to + plane * to_plane : next.data();
        is_adjoint ? step.give_back(from, to) : step.make(from, to);
        next.swap(between);
        from = to;
      }
    }
  });
}

}  // namespace adjoin::nn
