#include "adjoin/nn/distributed/normalise.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/planes.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// What is normalised over, carried through autograd's saved data.
struct Over : torch::CustomClassHolder {
  Over(std::shared_ptr<const DimMean> m, double e) : mean(std::move(m)), eps(e) {}
  std::shared_ptr<const DimMean> mean;
  double eps;
};

/// x as [n, planes, elements], of which each plane has one mean.
at::Tensor in_planes(const at::Tensor& x, int64_t planes) {
  return x.contiguous().view({-1, planes, x.numel() / (x.size(0) * x.size(1))});
}

/// Autograd's functions take no tensor that is none.
at::Tensor or_empty(const at::Tensor& affine, const at::Tensor& x) {
  return affine.defined() ? affine : at::zeros({0}, x.options());
}

/// Weight (0) or bias (1).
std::optional<at::Tensor> part_of(const at::Tensor& affine, int64_t which) {
  return affine.dim() == 2 ? std::optional(affine.select(0, which)) : std::nullopt;
}

at::Tensor transformed(const at::Tensor& planes, const std::optional<at::Tensor>& weight,
                       const std::optional<at::Tensor>& bias, const at::Tensor& mean, const at::Tensor& variance,
                       double eps) {
  return std::get<0>(
      at::native_batch_norm(planes, weight, bias, mean, variance, /*training=*/false, /*momentum=*/0, eps));
}

struct NormaliseBatch : torch::autograd::Function<NormaliseBatch> {
  static tensor_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& affine,
                             const c10::intrusive_ptr<Over>& over) {
    const DimMean& mean_of = *over->mean;
    ctx->saved_data["over"] = c10::IValue::make_capsule(over);
    const bool has_elements = x.numel() > 0;
    at::Tensor planes, own_mean, own_variance, spread;
    at::Tensor sums = mean_of.no_sums(x);
    if (has_elements) {
      planes = in_planes(x, sums.numel());
      std::tie(own_mean, own_variance) = moments_of_planes(planes);
    }
    const auto of_all = [&](const at::Tensor& own) {
      return mean_of.of_sums(has_elements ? (own.sum(0) * planes.size(2)).to(x.scalar_type()).view(sums.sizes())
                                          : sums);
    };
    const at::Tensor mean = of_all(own_mean);
    if (has_elements) spread = own_variance + (own_mean - mean.flatten()).square();
    const at::Tensor variance = of_all(spread);
    ctx->save_for_backward({x, affine, mean, variance});
    ctx->mark_non_differentiable({mean, variance});
    if (!has_elements) return {x.clone(), mean, variance};
    return {transformed(planes, part_of(affine, 0), part_of(affine, 1), mean.flatten(), variance.flatten(), over->eps)
                .view(x.sizes()),
            mean, variance};
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "norm: there are no second derivatives of a batch that is normalised");
    const auto over = c10::static_intrusive_pointer_cast<Over>(ctx->saved_data["over"].toCapsule());
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &affine = saved[1], mean = saved[2].flatten(), variance = saved[3].flatten();
    const DimMean& mean_of = *over->mean;
    const bool has_elements = x.numel() > 0;
    at::Tensor sums = mean_of.no_sums(x), of_bias = sums, of_weight = sums;
    at::Tensor planes, dy, inverse;
    if (has_elements) {
      planes = in_planes(x, sums.numel());
      dy = in_planes(gradients[0], sums.numel());
      inverse = at::rsqrt(variance + over->eps);
      std::tie(std::ignore, of_weight, of_bias) = at::native_batch_norm_backward(
          dy, planes, part_of(affine, 0), {}, {}, mean, inverse, /*train=*/true, over->eps, {false, true, true});
    }
    at::Tensor dx;
    if (ctx->needs_input_grad(0)) {
      const at::Tensor by_bias = mean_of.of_sums(of_bias.view(sums.sizes())).flatten();
      const at::Tensor by_weight = mean_of.of_sums(of_weight.view(sums.sizes())).flatten();
      dx = x;
      if (has_elements) {
        const at::Tensor scale = affine.dim() == 2 ? affine.select(0, 0) * inverse : inverse;
        dx = combine_planes(planes, mean, -scale * by_weight * inverse, dy, scale, -scale * by_bias).view(x.sizes());
      }
    }
    const at::Tensor of_affine = has_elements && affine.dim() == 2 ? at::stack({of_weight, of_bias})
                                                                   : at::zeros(affine.sizes(), affine.options());
    return {dx, of_affine, at::Tensor()};
  }
};

}  // namespace

Normalised normalise_batch(const at::Tensor& x, const at::Tensor& affine, const std::shared_ptr<const DimMean>& over,
                           double eps) {
  const tensor_list made = NormaliseBatch::apply(x, or_empty(affine, x), c10::make_intrusive<Over>(over, eps));
  return {made[0], made[1], made[2]};
}

at::Tensor normalise_by(const at::Tensor& x, const at::Tensor& affine, const at::Tensor& mean,
                        const at::Tensor& variance, double eps) {
  const at::Tensor both = or_empty(affine, x);
  return transformed(in_planes(x, mean.numel()), part_of(both, 0), part_of(both, 1), mean, variance, eps)
      .view(x.sizes());
}

}  // namespace adjoin::nn
