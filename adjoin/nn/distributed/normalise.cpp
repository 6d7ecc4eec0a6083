#include "adjoin/nn/distributed/normalise.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/graph_notes.hpp"
#include "adjoin/movement/saved_value.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/distributed/held.hpp"
#include "adjoin/nn/distributed/linked.hpp"
#include "adjoin/nn/distributed/planes.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// The dims over which means are taken.
std::vector<int64_t> reduced_dims(const Layout& x, bool per_sample) {
  std::vector<int64_t> dims;
  for (int64_t dim = per_sample ? 2 : 0; dim < x.dims(); ++dim)
    if (dim != 1) dims.push_back(dim);
  return dims;
}

/// The axes that cut these dims, dim by dim.
std::vector<std::string> axes_over(const Layout& x, const std::vector<int64_t>& dims) {
  std::vector<std::string> axes;
  for (const int64_t dim : dims) {
    const auto& of_dim = x.cuts()[static_cast<size_t>(dim)].axes;
    axes.insert(axes.end(), of_dim.begin(), of_dim.end());
  }
  return axes;
}

/// How many numbers of each plane the workers along these axes have, row-major.
std::vector<int64_t> counts_over(const Layout& x, const std::vector<int64_t>& dims) {
  std::vector<int64_t> counts{1};
  for (const int64_t dim : dims) {
    std::vector<int64_t> finer;
    for (const int64_t count : counts)
      for (const int64_t size : x.split(dim).sizes()) finer.push_back(count * size);
    counts = std::move(finer);
  }
  return counts;
}

/// The layout of two numbers for each plane, with `kind` along the axes that cut these dims.
Layout two_numbers(const Layout& x, const std::vector<int64_t>& dims, Kind kind) {
  return stacked_on(without_dims(x, dims, kind, /*keeps_dims=*/true), 2);
}

/// The same for `parts` workers, stacked along a new first dim.
Layout all_numbers(const Layout& x, const std::vector<int64_t>& dims, size_t parts) {
  return stacked_on(two_numbers(x, dims, Kind::replicated), static_cast<int64_t>(parts));
}

Layout::Cut into_parts(size_t parts, const std::vector<std::string>& axes) {
  return {Split::balanced(static_cast<int64_t>(parts), static_cast<int>(parts), 0), axes};
}

/// The layout of weight and bias for each worker's own part.
Layout own_affine(const Layout& x) {
  return stacked_on(features_here(x, 1, 1), 2);
}

Layout replicated_along(Layout layout, const std::vector<std::string>& axes) {
  for (const std::string& axis : axes) layout = layout.with_kind(axis, Kind::replicated);
  return layout;
}

bool share_one(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

/// What autograd's functions below need besides their tensors.
struct Over {
  std::shared_ptr<const ChannelMoments> moments;
  double eps;
};

/// Autograd's functions accept no undefined tensor.
at::Tensor or_empty(const at::Tensor& affine, const at::Tensor& x) {
  return affine.defined() ? affine : at::zeros({0}, x.options());
}

/// Weight (0) or bias (1).
std::optional<at::Tensor> part_of(const at::Tensor& affine, int64_t which) {
  return affine.dim() == 2 ? std::optional(affine.select(0, which)) : std::nullopt;
}

/// Numbers of each plane, in float64: those of `moments`, and those of its channel.
struct Planes {
  Planes(const at::Tensor& moments, const at::Tensor& affine, double eps)
      : mean(moments[0]), inverse((moments[1] + eps).sqrt().reciprocal()), scale(inverse), bias(at::zeros_like(mean)) {
    if (affine.dim() != 2) return;
    channels = affine.size(1);
    const at::Tensor of_planes =
        plain("norm", affine.detach()).to(at::kDouble).repeat({1, channels == 0 ? 1 : mean.size(0) / channels});
    scale = of_planes[0] * inverse;
    bias = of_planes[1];
  }

  at::Tensor mean, inverse, scale, bias;
  int64_t channels = 0;  // that have numbers
};

/// Sums over samples the gradients that each plane gives to its channel's weight and bias.
at::Tensor affine_gradient(const Planes& planes, const at::Tensor& sums) {
  return at::stack({sums[1] * planes.inverse, sums[0]}).view({2, -1, planes.channels}).sum(1);
}

/// y as a composition of LibTorch's functions and movements, which has all derivatives. `affine` may be undefined.
at::Tensor normalised_by_means(const at::Tensor& x, const at::Tensor& affine, const Over& over) {
  const ChannelMoments& moments = *over.moments;
  return normalise_by_means(
      x, affine.defined() ? moments.own(affine) : affine, x.dim() - 2, /*is_centred=*/true, over.eps,
      [&](const at::Tensor& t) { return moments.mean()(t); }, moments.links());
}

struct NormaliseBatch : torch::autograd::Function<NormaliseBatch> {
  static tensor_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& affine, const Over& over) {
    const at::Tensor moments = over.moments->moments(x);
    ctx->saved_data["over"] = saved_value(over);
    ctx->save_for_backward({x, affine, moments});
    ctx->mark_non_differentiable({moments});
    if (x.numel() == 0) return {x.clone(), moments};
    const Planes of(moments, affine, over.eps);
    const at::Tensor numbers = at::stack({of.mean, of.scale, at::zeros_like(of.mean), of.bias}, 1);
    // No view, as users write to it in place.
    return {at::_unsafe_view(combine_planes(over.moments->in_planes(x), {}, numbers), x.sizes()), moments};
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const Over& over = value_of<Over>(ctx->saved_data["over"]);
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &affine = saved[1], &moments = saved[2], &dy = gradients[0];
    if (at::GradMode::is_enabled()) return with_graph(over, x, affine, dy);
    const ChannelMoments& all = *over.moments;
    if (moments.dim() != 2) {  // outside the grid
      all.totals(moments);
      return {dy, affine, at::Tensor()};
    }
    const Planes of(moments, affine, over.eps);
    const at::Tensor xs = all.in_planes(x), dys = all.in_planes(dy);
    const at::Tensor own = gradient_sums(xs, dys, moments[0]), sums = all.totals(own);
    at::Tensor dx, of_affine = affine;  // no gradients yet
    if (ctx->needs_input_grad(0)) {
      const at::Tensor shares = of.scale * sums / static_cast<double>(-all.count());
      const at::Tensor numbers = at::stack({of.mean, shares[1] * of.inverse.square(), of.scale, shares[0]}, 1);
      dx = combine_planes(xs, dys, numbers).view(x.sizes());
    }
    if (of.channels > 0) of_affine = affine_gradient(of, all.shares_affine() ? own : sums).to(affine.scalar_type());
    return {dx, of_affine, at::Tensor()};
  }

 private:
  static tensor_list with_graph(const Over& over, const at::Tensor& x, const at::Tensor& affine, const at::Tensor& dy) {
    const bool has_affine = affine.dim() == 2 || affine.requires_grad();
    const at::Tensor y = normalised_by_means(x, has_affine ? affine : at::Tensor(), over);
    tensor_list inputs, result(3);
    for (const at::Tensor* input : {&x, &affine})
      if (input->requires_grad()) inputs.push_back(*input);
    const tensor_list found = torch::autograd::grad({y}, inputs, {dy}, /*retain_graph=*/true, /*create_graph=*/true);
    size_t next = 0;
    if (x.requires_grad()) result[0] = found[next++];
    if (affine.requires_grad()) result[1] = found[next];
    return result;
  }
};

const SummingNodes batch_norm_sums(typeid(torch::autograd::CppNode<NormaliseBatch>));

}  // namespace

ChannelMoments::ChannelMoments(const Layout& x, bool per_sample, const Layout& kept, const Grid& grid)
    : ChannelMoments(x, per_sample, reduced_dims(x, per_sample), axes_over(x, reduced_dims(x, per_sample)), kept,
                     grid) {}

ChannelMoments::ChannelMoments(const Layout& x, bool per_sample, const std::vector<int64_t>& dims,
                               const std::vector<std::string>& axes, const Layout& kept, const Grid& grid)
    : per_sample_(per_sample),
      links_(leaves_some_out(x, grid)),
      shares_affine_(share_one(kept.axes(Kind::copied), axes)),
      mean_(x, dims, grid),
      counts_(counts_over(x, dims)),
      gather_(all_numbers(x, dims, counts_.size()).with_cut(into_parts(counts_.size(), axes)),
              all_numbers(x, dims, counts_.size()), grid),
      sum_(two_numbers(x, dims, Kind::partial), two_numbers(x, dims, Kind::replicated), grid),
      own_shape_(sum_.from().shape_on(grid.world().rank())),
      own_(shares_affine_ ? own_affine(x) : replicated_along(own_affine(x), axes), own_affine(x), grid) {}

at::Tensor ChannelMoments::in_planes(const at::Tensor& x) const {
  const int64_t samples = per_sample_ ? x.size(0) : 1, planes = samples * x.size(1);
  int64_t elements = 1;
  for (int64_t dim = 2; dim < x.dim(); ++dim) elements *= x.size(dim);
  return plain("norm", x).contiguous().view({per_sample_ ? 1 : x.size(0), planes, elements});
}

at::Tensor ChannelMoments::moments(const at::Tensor& x) const {
  if (own_shape_.size() < 2) return gather_(at::empty({0}, x.options().dtype(at::kDouble)));  // outside the grid
  const at::Tensor own = moments_of_planes(in_planes(x));
  return counts_.size() == 1 ? own : merged_moments(gather_(own.view(own_shape_).unsqueeze(0)).flatten(2), counts_);
}

at::Tensor ChannelMoments::totals(const at::Tensor& own) const {
  return sum_(own.view(own_shape_)).view(own.sizes());
}

at::Tensor stacked_affine(const at::Tensor& weight, const at::Tensor& bias) {
  if (!weight.defined() && !bias.defined()) return {};
  return at::stack({weight.defined() ? weight : at::ones_like(bias), bias.defined() ? bias : at::zeros_like(weight)});
}

Normalised normalise_batch(const at::Tensor& x, const at::Tensor& affine,
                           const std::shared_ptr<const ChannelMoments>& over, double eps) {
  if (tangent_of(x).defined() || tangent_of(affine).defined())
    return {normalised_by_means(x, affine, {over, eps}), over->moments(primal_of(x).detach())};
  const tensor_list made = NormaliseBatch::apply(x, or_empty(affine, x), Over{over, eps});
  return {made[0], made[1]};
}

at::Tensor normalise_by(const at::Tensor& planes, const at::Tensor& affine, const at::Tensor& moments, double eps) {
  const at::Tensor both = or_empty(affine, planes);
  return std::get<0>(at::native_batch_norm(planes, part_of(both, 0), part_of(both, 1), moments[0], moments[1],
                                           /*training=*/false, /*momentum=*/0, eps));
}

at::Tensor normalise_by_means(const at::Tensor& x, const at::Tensor& affine, int64_t dims_behind, bool is_centred,
                              double eps, const std::function<at::Tensor(const at::Tensor&)>& mean, bool links) {
  const at::Tensor centred = is_centred ? x - mean(x) : x;
  at::Tensor y = centred * at::rsqrt(mean(centred.square()) + eps);
  if (!affine.defined()) return y;
  const auto over_features = [&](int64_t which) {
    at::Tensor numbers = affine.select(0, which);
    for (int64_t dim = 0; dim < dims_behind; ++dim) numbers = numbers.unsqueeze(-1);
    return numbers;
  };
  const bool is_outside = affine.dim() < 2;
  if (!is_outside) y = affine.size(0) == 2 ? y * over_features(0) + over_features(1) : y * over_features(0);
  return links ? linked(y, {x, affine}) : y;
}

}  // namespace adjoin::nn
