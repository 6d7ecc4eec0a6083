#include "adjoin/nn/distributed/layer_norm.hpp"

#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/dim_mean.hpp"
#include "adjoin/nn/distributed/group_mean.hpp"
#include "adjoin/nn/distributed/held.hpp"
#include "adjoin/nn/distributed/linked.hpp"
#include "adjoin/nn/distributed/normalise.hpp"
#include "adjoin/nn/distributed/widened.hpp"

namespace adjoin::nn {
namespace {

SampleNormGeometry over_last_dims(std::string name, const std::vector<int64_t>& shape) {
  require(!shape.empty() && std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size >= 1; }),
          [&] { return name + ": expected a shape of sizes of at least 1, got " + shape_text(shape); });
  return {.name = std::move(name), .shape = shape};
}

double epsilon_of(const SampleNormGeometry& geometry, at::ScalarType type) {
  const double least = type == at::kDouble ? std::numeric_limits<double>::epsilon()
                                           : static_cast<double>(std::numeric_limits<float>::epsilon());
  return geometry.eps.value_or(least);
}

}  // namespace

SampleNormGeometry geometry_of(const LayerNormOptions& options) {
  SampleNormGeometry geometry = over_last_dims("LayerNorm", options.normalized_shape());
  geometry.eps = options.eps();
  geometry.affine = options.elementwise_affine();
  return geometry;
}

SampleNormGeometry geometry_of(const RMSNormOptions& options) {
  SampleNormGeometry geometry = over_last_dims("RMSNorm", options.normalized_shape());
  geometry.eps = options.eps();
  geometry.affine = options.elementwise_affine();
  geometry.centred = false;
  return geometry;
}

SampleNormGeometry geometry_of(const GroupNormOptions& options) {
  const int64_t groups = options.num_groups(), channels = options.num_channels();
  require(groups >= 1 && channels >= 1 && channels % groups == 0, [&] {
    return "GroupNorm: expected channels that the groups divide, got " + std::to_string(channels) + " in " +
           std::to_string(groups) + " groups";
  });
  return {.name = "GroupNorm", .shape = {channels}, .groups = groups, .eps = options.eps(), .affine = options.affine()};
}

SampleNormImpl::SampleNormImpl(SampleNormGeometry geometry, const LayerLayouts& placement, const Grid& grid)
    : geometry_(std::move(geometry)),
      weight_layout_(weight_layout(geometry_.name, "a layout of ", placement, Layout(grid.shape(), geometry_.shape))),
      output_(placement.output),
      prepared_(geometry_.name, grid) {
  if (!geometry_.affine) return;
  register_piece(weight_, "weight", {weight_layout_, grid, Initial::ones()}, placement.tensor);
  if (geometry_.bias) register_piece(bias_, "bias", {weight_layout_, grid, Initial::zeros()}, placement.tensor);
}

SampleNormImpl::Prepared SampleNormImpl::prepare(const Layout& input) const {
  const auto count = static_cast<int64_t>(geometry_.shape.size());
  const int64_t first = geometry_.groups ? 1 : input.dims() - count;
  const bool fits = first >= 0 && input.dims() >= first + count &&
                    std::equal(geometry_.shape.begin(), geometry_.shape.end(), input.shape().begin() + first);
  require(fits, [&] {
    return geometry_.groups ? "expected [batch, " + std::to_string(geometry_.shape[0]) + ", *space]"
                            : "expected the last dims to be " + shape_text(geometry_.shape);
  });
  const Grid& grid = prepared_.grid();
  const Layout x = summed(input);
  std::function<at::Tensor(const at::Tensor&)> mean;
  if (geometry_.groups) {
    mean = GroupMean(x, *geometry_.groups, grid);
  } else {
    std::vector<int64_t> dims(static_cast<size_t>(count));
    std::iota(dims.begin(), dims.end(), first);
    mean = DimMean(x, dims, grid);
  }
  const int64_t tensors = geometry_.centred ? 2 : 1;
  return {Move(input, x, grid),
          std::move(mean),
          Move(stacked_on(weight_layout_, tensors), stacked_on(features_here(x, first, count), tensors), grid),
          Move(x, output_ ? output_(x.shape()) : x, grid),
          x.dims() - first - count,
          leaves_some_out(x, grid)};
}

DistributedTensor SampleNormImpl::forward(const DistributedTensor& x) {
  prepared_.check_type(x, weight_, /*mixes=*/true);
  const Prepared& prepared = prepared_.of(x.layout, [this](const Layout& input) { return prepare(input); });
  const at::ScalarType type = x.local.scalar_type();
  const at::Tensor y = normalised(prepared, widened(prepared.read(x.local)), type).to(type);
  return {prepared.write(y), prepared.write.to(), x.grid, x.step};
}

at::Tensor SampleNormImpl::affine_numbers() const {
  if (!geometry_.centred) return weight_.unsqueeze(0);
  return at::stack({weight_, geometry_.bias ? bias_ : at::zeros_like(weight_)});
}

at::Tensor SampleNormImpl::normalised(const Prepared& prepared, const at::Tensor& x, at::ScalarType type) const {
  at::Tensor affine;
  if (geometry_.affine) affine = widened(prepared.affine(affine_numbers()));
  return normalise_by_means(x, affine, prepared.dims_behind, geometry_.centred, epsilon_of(geometry_, type),
                            prepared.mean, prepared.links);
}

}  // namespace adjoin::nn
