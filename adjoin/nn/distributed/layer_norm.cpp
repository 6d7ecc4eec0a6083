#include "adjoin/nn/distributed/layer_norm.hpp"

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

SampleNorm::SampleNorm(SampleNormGeometry geometry, const LayerLayouts& placement, const Grid& grid)
    : geometry_(std::move(geometry)),
      weight_(weight_layout(geometry_.name, "a layout of ", placement, Layout(grid.shape(), geometry_.shape))),
      output_(placement.output),
      prepared_(geometry_.name, grid) {}

SampleNorm::Prepared SampleNorm::prepare(const Layout& input) const {
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
          Move(stacked_on(weight_, tensors), stacked_on(features_here(x, first, count), tensors), grid),
          Move(x, output_ ? output_(x.shape()) : x, grid),
          x.dims() - first - count,
          leaves_some_out(x, grid)};
}

DistributedTensor SampleNorm::operator()(const DistributedTensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  prepared_.check_type(x, weight, /*mixes=*/true);
  const Prepared& prepared = prepared_.of(x.layout, [this](const Layout& input) { return prepare(input); });
  const at::ScalarType type = x.local.scalar_type();
  const at::Tensor read = widened(prepared.read(x.local));
  at::Tensor affine = geometry_.centred ? stacked_affine(weight, bias) : weight;
  if (affine.defined()) affine = widened(prepared.affine(geometry_.centred ? affine : affine.unsqueeze(0)));
  const at::Tensor y = normalise_by_means(read, affine, prepared.dims_behind, geometry_.centred,
                                          epsilon_of(geometry_, type), prepared.mean, prepared.links);
  return {prepared.write(y.to(type)), prepared.write.to(), x.grid, x.step};
}

SampleNormImpl::SampleNormImpl(const SampleNormGeometry& geometry, const LayerLayouts& placement, const Grid& grid)
    : norm_(geometry, placement, grid) {
  if (!geometry.affine) return;
  register_piece(weight_, "weight", {norm_.weight(), grid, Initial::ones()}, placement.tensor);
  if (geometry.bias) register_piece(bias_, "bias", {norm_.weight(), grid, Initial::zeros()}, placement.tensor);
}

}  // namespace adjoin::nn
