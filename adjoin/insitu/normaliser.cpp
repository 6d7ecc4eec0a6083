#include "adjoin/insitu/normaliser.hpp"

#include <ATen/ATen.h>

namespace adjoin::insitu {

Normaliser::Normaliser(int64_t channels, bool is_inverse, std::optional<Moments> given, const Grid& grid)
    : channels_(channels), is_inverse_(is_inverse), given_(std::move(given)) {
  const auto own = [&](at::Tensor& member, const char* name, const nn::Initial& initial) {
    register_piece(member, name, {nn::layout_copied_on(grid.shape(), {channels}), grid, initial}, at::kDouble,
                   /*is_buffer=*/true);
  };
  own(mean_, "mean", nn::Initial::zeros());
  own(deviation_, "deviation", nn::Initial::ones());
  own(count_, "count", nn::Initial::zeros());
}

void Normaliser::reset() {
  if (!given_ || mean_.numel() == 0) return;
  mean_.copy_(at::tensor(given_->mean, at::kDouble));
  deviation_.copy_(at::tensor(given_->deviation, at::kDouble));
}

at::Tensor Normaliser::of_channels(const at::Tensor& numbers, const at::Tensor& x) const {
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = channels_;
  return numbers.to(x.scalar_type()).view(shape);
}

at::Tensor Normaliser::apply(const at::Tensor& x) const {
  if (x.numel() == 0) return x;
  const at::Tensor mean = of_channels(mean_, x);
  return is_inverse_ ? x * scale(x) + mean : scaled(x - mean);
}

at::Tensor Normaliser::scale(const at::Tensor& x) const {
  return of_channels(at::where(deviation_ > 0, deviation_, at::ones_like(deviation_)), x);
}

at::Tensor Normaliser::scaled(const at::Tensor& x) const {
  return x.numel() == 0 ? x : x / scale(x);
}

std::vector<double> Normaliser::sums(const at::Tensor& x) const {
  if (x.numel() == 0) return std::vector<double>(3 * static_cast<size_t>(channels_));
  const at::Tensor difference = (x.to(at::kDouble) - of_channels(mean_, x.to(at::kDouble))).transpose(0, 1).flatten(1);
  const at::Tensor first = difference.sum(1), cells = at::full_like(first, difference.size(1));
  const at::Tensor all = at::cat({cells, first, difference.square().sum(1)});
  return {all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel()};
}

void Normaliser::merge(std::span<const double> sums) {
  if (mean_.numel() == 0) return;
  const at::Tensor all = at::tensor(std::vector(sums.begin(), sums.end()), at::kDouble).view({3, channels_});
  const at::Tensor more = all[0], count = count_ + more, step = all[1] / more;
  const at::Tensor squares =
      deviation_.square() * count_ + all[2] - all[1] * step + step.square() * count_ * more / count;
  mean_.add_(step * more / count);
  deviation_.copy_((squares / count).clamp_min(0).sqrt());
  count_.copy_(count);
}

}  // namespace adjoin::insitu
