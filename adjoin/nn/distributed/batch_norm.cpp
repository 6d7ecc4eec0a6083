#include "adjoin/nn/distributed/batch_norm.hpp"

#include <ATen/ops/stack.h>

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

}  // namespace

ChannelNorm::ChannelNorm(ChannelNormGeometry geometry, const LayerLayouts& placement, const Grid& grid)
    : geometry_(std::move(geometry)),
      weight_(checked_channels(geometry_, placement, grid)),
      output_(placement.output),
      prepared_(geometry_.name, grid) {}

ChannelNorm::Prepared ChannelNorm::prepare(const Layout& input) const {
  const auto dims = static_cast<size_t>(input.dims());
  // A batch of vectors has no space.
  const bool fits = dims == geometry_.space + 2 || (geometry_.space == 1 && !geometry_.per_sample && dims == 2);
  require(fits && input.shape()[kChannelDim] == geometry_.features, [&] {
    return "expected [batch, " + std::to_string(geometry_.features) + ", *space] with " +
           std::to_string(geometry_.space) + " dims of space";
  });
  const Grid& grid = prepared_.grid();
  const Layout x = summed(input), kept = stacked_on(weight_, 2);  // two numbers a channel
  auto moments = std::make_shared<const ChannelMoments>(x, geometry_.per_sample, weight_, grid);
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

DistributedTensor ChannelNorm::operator()(const DistributedTensor& x, const ChannelNormArguments& with) {
  prepared_.check_type(x, with.weight, /*mixes=*/true);
  const Prepared& prepared = prepared_.of(x.layout, [this](const Layout& input) { return prepare(input); });
  const at::Tensor y = normalised(prepared, widened(prepared.read(x.local)), with);
  return {prepared.write(y.to(x.local.scalar_type())), prepared.write.to(), x.grid, x.step};
}

at::Tensor ChannelNorm::normalised(const Prepared& prepared, const at::Tensor& x,
                                   const ChannelNormArguments& with) const {
  const bool tracks = with.running_mean.defined(), of_batch = with.training || !tracks;
  require(!of_batch || prepared.moments->count() != 1, [&] {
    return geometry_.name + ": expected more than one number in each channel in training; the input is " +
           prepared.read.from().to_string();
  });
  at::Tensor affine = stacked_affine(with.weight, with.bias);
  if (affine.defined()) affine = widened(prepared.affine(affine));
  if (of_batch) {
    const Normalised batch = normalise_batch(x, affine, prepared.moments, geometry_.eps);
    if (tracks) track(prepared, batch, with);
    return batch.y;
  }
  const at::Tensor moments = prepared.statistics(at::stack({with.running_mean, with.running_var}));
  if (affine.defined()) affine = prepared.moments->own(affine);
  if (x.numel() == 0) return prepared.moments->links() ? linked(x.clone(), {x, affine}) : x.clone();
  const at::Tensor planes = x.contiguous().view({x.size(0), x.size(1), -1});
  const at::Tensor y = normalise_by(planes, affine, moments.to(x.scalar_type()), geometry_.eps).view(x.sizes());
  return prepared.moments->links() ? linked(y, {x, affine}) : y;
}

void ChannelNorm::track(const Prepared& prepared, const Normalised& batch, const ChannelNormArguments& with) const {
  const at::NoGradGuard no_gradient;
  const auto count = static_cast<double>(prepared.moments->count());
  const double samples = geometry_.per_sample ? static_cast<double>(prepared.read.to().shape()[0]) : 1;
  if (count * samples == 0) return;  // an empty batch changes no statistics
  at::Tensor sums = batch.moments;
  if (geometry_.per_sample && sums.dim() == 2) sums = sums.view({2, batch.y.size(0), batch.y.size(1)}).sum(1);
  const at::Tensor home = prepared.home(sums).to(with.running_mean.scalar_type());
  if (home.dim() != 2) return;  // they are kept on other workers
  with.running_mean.mul_(1 - with.momentum).add_(home[0], with.momentum / samples);
  with.running_var.mul_(1 - with.momentum).add_(home[1], with.momentum * count / (count - 1) / samples);
}

ChannelNormImpl::ChannelNormImpl(const ChannelNormGeometry& geometry, const LayerLayouts& placement, const Grid& grid)
    : norm_(geometry, placement, grid) {
  const auto own = [&](at::Tensor& member, const char* name, const Initial& initial, bool is_buffer) {
    register_piece(member, name, {norm_.weight(), grid, initial}, placement.tensor, is_buffer);
  };
  if (geometry.affine) own(arguments_.weight, "weight", Initial::ones(), /*is_buffer=*/false);
  if (geometry.affine && geometry.bias) own(arguments_.bias, "bias", Initial::zeros(), /*is_buffer=*/false);
  if (!geometry.tracks) return;
  own(arguments_.running_mean, "running_mean", Initial::zeros(), /*is_buffer=*/true);
  own(arguments_.running_var, "running_var", Initial::ones(), /*is_buffer=*/true);
  register_piece(num_batches_tracked_, "num_batches_tracked",
                 {Layout(norm_.weight().grid(), {}), grid, Initial::zeros()}, at::kLong, /*is_buffer=*/true);
}

DistributedTensor ChannelNormImpl::forward(const DistributedTensor& x) {
  // torch::nn's InstanceNorm does not count; where the counter is kept on other workers, it has no elements here.
  const bool counts = is_training() && !norm_.geometry().per_sample && num_batches_tracked_.numel() > 0;
  arguments_.training = is_training();
  arguments_.momentum = norm_.geometry().momentum.value_or(counts ? 1 / (num_batches_tracked_.item<double>() + 1) : 0);
  DistributedTensor y = norm_(x, arguments_);
  if (counts) num_batches_tracked_.add_(1);
  return y;
}

}  // namespace adjoin::nn
