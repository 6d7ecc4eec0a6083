#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <numeric>

#include "adjoin/rules/operation.hpp"

// The transforms of which torch.fft consists, and complex numbers as pairs of real ones.

namespace adjoin::rules {
namespace {

std::vector<int64_t> first_dims(int64_t count) {
  std::vector<int64_t> dims(static_cast<size_t>(count));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

/// Transforms along some dims, which must be whole; the last of them may change its size.
std::vector<Way> transform(const Operation& operation) {
  const int64_t dims = operation.operands[0].layout.dims();
  const std::vector<int64_t> along = operation.integers(1);
  if (along.empty()) return {};
  Labels labels{.operands = {numbered(dims)}, .results = {numbered(dims)}, .is_linear = true};
  for (const int64_t dim : along) labels.whole.insert(static_cast<int>(dim < 0 ? dim + dims : dim));
  const auto last = static_cast<size_t>(along.back() < 0 ? along.back() + dims : along.back());
  const bool makes_real = operation.name() == "aten::_fft_c2r", reads_real = operation.name() == "aten::_fft_r2c";
  if (makes_real || (reads_real && operation.arguments[3].toBool())) {
    constexpr int kNew = 1000;
    labels.results[0][last] = kNew;
    labels.sizes[kNew] = makes_real ? operation.integer(3) : operation.shape(0)[last] / 2 + 1;
  }
  std::vector<Way> ways = labelled(labels, operation);
  for (Way& way : ways)
    if (const std::vector<int64_t> shape = way.makes[0].shape_on(operation.home.rank); std::ranges::count(shape, 0) > 0)
      way.kernel = [shape, makes_real](Arguments arguments) {  // LibTorch's fails without elements
        const at::Tensor x = arguments[0].toTensor();
        const at::ScalarType type = x.scalar_type();
        return std::vector<at::Tensor>{
            at::empty(shape, x.options().dtype(makes_real ? c10::toRealValueType(type) : c10::toComplexType(type)))};
      };
  return ways;
}

/// A new last dim of the real and the imaginary part.
std::vector<Way> as_real(const Operation& operation) {
  const Layout& x = operation.operands[0].layout;
  std::vector<int64_t> shape = x.shape(), from = first_dims(x.dims());
  shape.push_back(2);
  from.push_back(-1);
  Way way{.reads = {x}, .makes = {reshaped(x, shape, from)}};
  way.kernel = [](Arguments arguments) {
    return std::vector<at::Tensor>{at::view_as_real(arguments[0].toTensor().resolve_conj())};
  };
  return {std::move(way)};
}

/// The last dim, which must be whole, is the real and the imaginary part.
std::vector<Way> as_complex(const Operation& operation) {
  const int64_t dims = operation.operands[0].layout.dims();
  const Layout x = whole_along(operation.operands[0].layout, {dims - 1});
  std::vector<int64_t> shape = x.shape();
  shape.pop_back();
  return {Way{.reads = {x}, .makes = {reshaped(x, shape, first_dims(dims - 1))}}};
}

}  // namespace

Table fourier_rules() {
  return {{{"_fft_c2c", "_fft_r2c", "_fft_c2r"}, transform},
          {{"view_as_real"}, as_real},
          {{"view_as_complex"}, as_complex},
          {{"_conj", "complex", "polar"}, pointwise}};
}

}  // namespace adjoin::rules
