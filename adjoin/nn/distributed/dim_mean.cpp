#include "adjoin/nn/distributed/dim_mean.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "adjoin/base/error.hpp"

namespace adjoin::nn {
namespace {

/// Where the sums over the dims lie, of a kind along the axes that cut the dims.
Layout sums_of(const Layout& x, const std::vector<int64_t>& dims, Kind kind) {
  std::vector<int64_t> shape = x.shape();
  std::vector<Layout::Cut> cuts;
  std::map<std::string, Kind> kinds = x.kinds();
  for (int64_t dim = 0; dim < x.dims(); ++dim) {
    const Layout::Cut& cut = x.cuts()[static_cast<size_t>(dim)];
    if (std::find(dims.begin(), dims.end(), dim) == dims.end()) {
      cuts.push_back(cut);
      continue;
    }
    shape[static_cast<size_t>(dim)] = 1;
    for (const std::string& axis : cut.axes) kinds[axis] = kind;
  }
  return Layout(x.grid(), std::move(shape), std::move(cuts), std::move(kinds));
}

}  // namespace

DimMean::DimMean(const Layout& x, const std::vector<int64_t>& dims, const Grid& grid)
    : dims_(dims),
      is_here_(x.grid().cell_of(grid.world().rank()).has_value()),
      sum_(sums_of(x, dims, Kind::partial), sums_of(x, dims, Kind::copied), grid) {
  require(x.is_exact() && x.axes(Kind::partial).empty(),
          [&] { return "mean: expected exact splits and no axis that is partial, got " + x.to_string(); });
  for (const int64_t dim : dims) count_ *= x.shape()[static_cast<size_t>(dim)];
}

at::Tensor DimMean::operator()(const at::Tensor& x) const {
  return sum(x) / static_cast<double>(count_);
}

at::Tensor DimMean::of_sums(const at::Tensor& sums) const {
  return sum_(sums) / static_cast<double>(count_);
}

at::Tensor DimMean::no_sums(const at::Tensor& x) const {
  if (!is_here_) return x;
  std::vector<int64_t> shape = x.sizes().vec();
  for (const int64_t dim : dims_) shape[static_cast<size_t>(dim)] = 1;
  return at::zeros(shape, x.options());
}

at::Tensor DimMean::sum(const at::Tensor& x) const {
  return sum_(is_here_ ? x.sum(dims_, /*keepdim=*/true) : x);
}

}  // namespace adjoin::nn
