#include "adjoin/nn/distributed/dim_mean.hpp"

#include <ATen/TensorOperators.h>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/forward_record.hpp"
#include "adjoin/nn/distributed/held.hpp"

namespace adjoin::nn {
DimMean::DimMean(const Layout& x, const std::vector<int64_t>& dims, const Grid& grid)
    : grid_(grid),
      dims_(dims),
      is_here_(x.grid().cell_of(grid.world().rank()).has_value()),
      sum_(without_dims(x, dims, Kind::partial, /*keeps_dims=*/true),
           without_dims(x, dims, Kind::copied, /*keeps_dims=*/true), grid) {
  require(x.is_exact() && x.axes(Kind::partial).empty(),
          [&] { return "mean: expected exact splits and no axis that is partial, got " + x.to_string(); });
  for (const int64_t dim : dims) count_ *= x.shape()[static_cast<size_t>(dim)];
}

at::Tensor DimMean::operator()(const at::Tensor& x) const {
  return sum(x) / static_cast<double>(count_);
}

at::Tensor DimMean::sum(const at::Tensor& x) const {
  return declared("a sum over workers", sum_(is_here_ ? x.sum(dims_, /*keepdim=*/true) : x), sum_.to(), grid_);
}

}  // namespace adjoin::nn
