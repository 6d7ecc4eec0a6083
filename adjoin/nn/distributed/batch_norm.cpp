#include "adjoin/nn/distributed/batch_norm.hpp"

#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/held.hpp"
#include "adjoin/nn/distributed/linked.hpp"
#include "adjoin/nn/distributed/widened.hpp"

namespace adjoin::nn {
namespace {

constexpr size_t kChannelDim = 1;

Layout checked_channels(const ChannelNormGeometry& geometry, const LayerLayouts& placement, const Grid& grid) {
  require(geometry.features >= 1, [&] { return geometry.name + ": expected at least 1 feature"; });
  return weight_layout(geometry.name, "a layout of ", placement, Layout(grid.shape(), {geometry.features}));
}

at::Tensor paired(const at::Tensor& a, const at::Tensor& b) {
  return at::stack({a.flatten(), b.flatten()});
}

}  // namespace

ChannelNormImpl::ChannelNormImpl(ChannelNormGeometry geometry, const LayerLayouts& placement, const Grid& grid)
    : geometry_(std::move(geometry)),
      channels_(checked_channels(geometry_, placement, grid)),
      output_(placement.output),
      prepared_(geometry_.name, grid) {
  const auto piece = [&](const Initial& initial) { return Piece{channels_, grid, initial}; };
  if (geometry_.affine) {
    register_piece(weight_, "weight", piece(Initial::ones()), placement.tensor);
    if (geometry_.bias) register_piece(bias_, "bias", piece(Initial::zeros()), placement.tensor);
  }
  if (!geometry_.tracks) return;
  register_piece(running_mean_, "running_mean", piece(Initial::zeros()), placement.tensor, /*is_buffer=*/true);
  register_piece(running_var_, "running_var", piece(Initial::ones()), placement.tensor, /*is_buffer=*/true);
  register_piece(num_batches_tracked_, "num_batches_tracked", {Layout(channels_.grid(), {}), grid, Initial::zeros()},
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
  const Layout x = summed(input), kept = stacked_on(channels_, 2);  // two numbers a channel
  auto moments = std::make_shared<const ChannelMoments>(x, geometry_.per_sample, channels_, grid);
  const Layout here = stored(moments->affine());
  Layout of_samples = here;
  if (geometry_.per_sample)
    for (const std::string& axis : x.cuts()[0].axes) of_samples = of_samples.with_kind(axis, Kind::partial);
  Move affine(kept, moments->affine(), grid);
  return {Move(input, x, grid),
          std::move(moments),
          std::move(affine),
          Move(stored(kept), here, grid),
          Move(of_samples, stored(kept), grid),
          Move(x, output_ ? output_(x.shape()) : x, grid)};
}

DistributedTensor ChannelNormImpl::forward(const DistributedTensor& x) {
  prepared_.check_type(x, weight_, /*mixes=*/true);
  const Prepared& prepared = prepared_.of(x.layout, [this](const Layout& input) { return prepare(input); });
  const at::Tensor y = normalised(prepared, widened(prepared.read(x.local))).to(x.local.scalar_type());
  return {prepared.write(y), prepared.write.to(), x.grid, x.step};
}

at::Tensor ChannelNormImpl::normalised(const Prepared& prepared, const at::Tensor& x) {
  const bool of_batch = is_training() || !geometry_.tracks;
  require(!of_batch || prepared.moments->count() != 1, [&] {
    return geometry_.name + ": expected more than one number in each channel in training; the input is " +
           prepared.read.from().to_string();
  });
  at::Tensor affine;
  if (geometry_.affine)
    affine = widened(prepared.affine(paired(weight_, geometry_.bias ? bias_ : at::zeros_like(weight_))));
  if (of_batch) {
    const Normalised batch = normalise_batch(x, affine, prepared.moments, geometry_.eps);
    if (is_training() && geometry_.tracks) track(prepared, x, batch.moments);
    return batch.y;
  }
  const at::Tensor moments = prepared.statistics(paired(running_mean_, running_var_));
  if (affine.defined()) affine = prepared.moments->own(affine);
  if (x.numel() == 0) return prepared.moments->links() ? linked(x.clone(), {x, affine}) : x.clone();
  const at::Tensor planes = x.contiguous().view({x.size(0), x.size(1), -1});
  const at::Tensor y = normalise_by(planes, affine, moments.to(x.scalar_type()), geometry_.eps).view(x.sizes());
  return prepared.moments->links() ? linked(y, {x, affine}) : y;
}

void ChannelNormImpl::track(const Prepared& prepared, const at::Tensor& x, const at::Tensor& moments) {
  const at::NoGradGuard no_gradient;
  const auto count = static_cast<double>(prepared.moments->count());
  const double samples = geometry_.per_sample ? static_cast<double>(prepared.read.to().shape()[0]) : 1;
  // torch::nn's InstanceNorm does not count; where the counter is kept on other workers, it has no elements here.
  if (!geometry_.per_sample && num_batches_tracked_.numel() > 0) num_batches_tracked_.add_(1);
  if (count * samples == 0) return;  // an empty batch is counted, but changes no statistics
  const bool is_here = moments.dim() == 2;
  const at::Tensor sums = geometry_.per_sample && is_here ? moments.view({2, x.size(0), x.size(1)}).sum(1) : moments;
  const at::Tensor home = prepared.home(sums).to(running_mean_.scalar_type());
  if (home.dim() != 2) return;  // they are kept on other workers
  const double share = geometry_.momentum.value_or(1 / num_batches_tracked_.item<double>());
  running_mean_.mul_(1 - share).add_(home[0], share / samples);
  running_var_.mul_(1 - share).add_(home[1], share * count / (count - 1) / samples);
}

}  // namespace adjoin::nn
