#include "adjoin/nn/distributed/batch_norm.hpp"

#include <ATen/ops/stack.h>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/held.hpp"
#include "adjoin/nn/distributed/linked.hpp"
#include "adjoin/nn/distributed/normalise.hpp"
#include "adjoin/nn/distributed/widened.hpp"

namespace adjoin::nn {
namespace {

constexpr size_t kChannelDim = 1;

Layout checked_channels(const ChannelNormGeometry& geometry, const ChannelPlacement& placement, const Grid& grid) {
  require(geometry.features >= 1, [&] { return geometry.name + ": expected at least 1 feature"; });
  const std::vector<int64_t> shape{geometry.features};
  if (!placement.channels) return Layout(grid.shape(), shape);
  require(placement.channels->shape() == shape, [&] {
    return geometry.name + ": expected a layout of " + shape_text(shape) + ", got " + placement.channels->to_string();
  });
  return *placement.channels;
}

at::Tensor paired(const at::Tensor& a, const at::Tensor& b) {
  return at::stack({a.flatten(), b.flatten()});
}

std::vector<int64_t> reduced_dims(const ChannelNormGeometry& geometry, size_t dims) {
  std::vector<int64_t> reduced;
  for (size_t dim = geometry.per_sample ? kChannelDim + 1 : 0; dim < dims; ++dim)
    if (dim != kChannelDim) reduced.push_back(static_cast<int64_t>(dim));
  return reduced;
}

}  // namespace

ChannelNormImpl::ChannelNormImpl(ChannelNormGeometry geometry, const ChannelPlacement& placement, const Grid& grid)
    : geometry_(std::move(geometry)),
      channels_(checked_channels(geometry_, placement, grid)),
      output_(placement.output),
      prepared_(geometry_.name, grid) {
  const auto piece = [&](const Initial& initial) { return Piece{channels_, grid, initial}; };
  if (geometry_.affine) {
    weight_ = register_piece("weight", piece(Initial::ones()), placement.tensor);
    bias_ = register_piece("bias", piece(Initial::zeros()), placement.tensor);
  }
  if (!geometry_.tracks) return;
  running_mean_ = register_piece("running_mean", piece(Initial::zeros()), placement.tensor, /*is_buffer=*/true);
  running_var_ = register_piece("running_var", piece(Initial::ones()), placement.tensor, /*is_buffer=*/true);
  num_batches_tracked_ = register_piece("num_batches_tracked", {Layout(channels_.grid(), {}), grid, Initial::zeros()},
                                        at::kLong, /*is_buffer=*/true);
}

ChannelNormImpl::Prepared ChannelNormImpl::prepare(const Layout& input) const {
  const auto dims = static_cast<size_t>(input.dims());
  // A batch of vectors has no space.
  const bool fits = dims == geometry_.space + 2 || (geometry_.space == 1 && !geometry_.per_sample && dims == 2);
  require(fits && input.shape()[kChannelDim] == geometry_.features, [&] {
    return "expected [batch, " + std::to_string(geometry_.features) + ", *space] with " +
           std::to_string(geometry_.space) + " dims of space";
  });
  const Grid& grid = prepared_.grid();
  const Layout x = summed(input), here = features_here(x, kChannelDim, 1);
  auto mean = std::make_shared<const DimMean>(x, reduced_dims(geometry_, dims), grid);
  DimMean batch_mean(mean->layout(), {0}, grid);
  const Layout kept = stacked_on(channels_, 2), local = stacked_on(here, 2);  // two numbers a channel
  return {Move(input, x, grid),
          std::move(mean),
          std::move(batch_mean),
          Move(kept, local, grid),
          Move(first_copy(kept), local, grid),
          Move(first_copy(local), kept, grid),
          Move(x, output_ ? output_(x.shape()) : x, grid),
          leaves_some_out(x, grid)};
}

DistributedTensor ChannelNormImpl::forward(const DistributedTensor& x) {
  prepared_.check_type(x, weight_, /*mixes=*/true);
  const Prepared& prepared = prepared_.of(x.layout, [this](const Layout& input) { return prepare(input); });
  const at::Tensor y = normalised(prepared, widened(prepared.read(x.local))).to(x.local.scalar_type());
  return {prepared.write(y), prepared.write.to(), x.grid, x.step};
}

at::Tensor ChannelNormImpl::normalised(const Prepared& prepared, const at::Tensor& x) {
  const bool of_batch = is_training() || !geometry_.tracks;
  require(!of_batch || prepared.mean->count() != 1, [&] {
    return geometry_.name + ": expected more than one number a channel in training; the input is " +
           prepared.read.from().to_string();
  });
  at::Tensor affine;
  if (geometry_.affine) affine = widened(prepared.affine(paired(weight_, bias_)));
  if (of_batch) {
    if (geometry_.per_sample && affine.defined() && affine.dim() == 2) affine = affine.repeat({1, x.size(0)});
    const Normalised normalised = normalise_batch(x, affine, prepared.mean, geometry_.eps);
    if (is_training() && geometry_.tracks) track(prepared, {normalised.mean, normalised.variance});
    return normalised.y;
  }
  const Statistics statistics = running(prepared);
  const at::Tensor y =
      x.numel() == 0 ? x.clone() : normalise_by(x, affine, statistics.mean, statistics.variance, geometry_.eps);
  return prepared.links ? linked(y, {x, affine}) : y;
}

ChannelNormImpl::Statistics ChannelNormImpl::running(const Prepared& prepared) const {
  const bool gives = prepared.statistics.from().grid().cell_of(prepared_.grid().world().rank()).has_value();
  const at::Tensor kept = gives ? paired(running_mean_, running_var_) : running_mean_.flatten().narrow(0, 0, 0);
  const at::Tensor here = widened(prepared.statistics(kept));
  if (here.dim() != 2) return {here, here};
  return {here.select(0, 0), here.select(0, 1)};
}

void ChannelNormImpl::track(const Prepared& prepared, const Statistics& of_batch) {
  const at::NoGradGuard no_gradient;
  const auto count = static_cast<double>(prepared.mean->count());
  // torch::nn's InstanceNorm does not count; what is kept elsewhere has no elements here.
  if (!geometry_.per_sample && num_batches_tracked_.numel() > 0) num_batches_tracked_.add_(1);
  if (count == 0) return;  // a batch without numbers counts, but says nothing
  at::Tensor mean = of_batch.mean, variance = of_batch.variance * (count / (count - 1));
  if (geometry_.per_sample) {
    mean = prepared.batch_mean(mean);
    variance = prepared.batch_mean(variance);
  }
  const bool gives = prepared.home.from().grid().cell_of(prepared_.grid().world().rank()).has_value();
  const at::Tensor home = prepared.home(gives ? paired(mean, variance) : mean.flatten().narrow(0, 0, 0));
  if (home.dim() != 2) return;  // they are kept elsewhere
  const double share = geometry_.momentum.value_or(1 / num_batches_tracked_.item<double>());
  running_mean_.mul_(1 - share).add_(home.select(0, 0), share);
  running_var_.mul_(1 - share).add_(home.select(0, 1), share);
}

}  // namespace adjoin::nn
