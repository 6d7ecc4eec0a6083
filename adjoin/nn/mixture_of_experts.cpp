#include "adjoin/nn/mixture_of_experts.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/linear.hpp"

namespace adjoin::nn {
namespace {

thread_local ExpertLoads* counting = nullptr;

/// Returns x; its backward also gives the loss its gradient, which is 1.
struct WithLoss : torch::autograd::Function<WithLoss> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& loss) {
    ctx->saved_data["one"] = at::ones_like(loss);
    return x.view_as(x);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list gradients) {
    return {gradients[0], ctx->saved_data["one"].toTensor()};
  }
};

/// x W^T in float64; x is kept in its own type for backward. Only some rows at a time are widened, so that these stay in the
/// caches.
struct Scores : torch::autograd::Function<Scores> {
  static constexpr int64_t kAtOnce = 256;

  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight) {
    ctx->save_for_backward({x, weight});
    const at::Tensor wide = weight.to(at::kDouble).t();
    at::Tensor scores = at::empty({x.size(0), weight.size(0)}, x.options().dtype(at::kDouble));
    for (int64_t row = 0; row < x.size(0); row += kAtOnce) {
      at::Tensor here = scores.slice(0, row, row + kAtOnce);
      at::mm_out(here, x.slice(0, row, row + kAtOnce).to(at::kDouble), wide);
    }
    return scores;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "MixtureOfExperts: double backward is not supported");
    const torch::autograd::tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor wide = weight.to(at::kDouble), of_wide = at::zeros_like(wide), of_x = at::empty_like(x);
    for (int64_t row = 0; row < x.size(0); row += kAtOnce) {
      const at::Tensor of_scores = gradients[0].slice(0, row, row + kAtOnce);
      of_x.slice(0, row, row + kAtOnce).copy_(of_scores.mm(wide));
      of_wide.addmm_(of_scores.t(), x.slice(0, row, row + kAtOnce).to(at::kDouble));
    }
    return {of_x, of_wide.to(weight.scalar_type())};
  }
};

at::Tensor probabilities(const at::Tensor& scores) {
  return FixedOrder::current() ? fixed::softmax_of_rows(scores) : at::softmax(scores, 1);
}

/// A linear layer whose module only holds the weight.
class RouterImpl : public ShardedModule {
 public:
  explicit RouterImpl(const MixtureOfExpertsOptions& o, const Grid& grid, const std::string& axis) {
    const std::vector<int64_t> shape{o.experts, o.features};
    weight =
        register_piece("weight",
                       {o.split_rows ? layout_copied_on(grid.shape(), shape) : layout_cut_along(grid, axis, shape),
                        grid,
                        Initial::normal(o.deviation.value_or(1 / std::sqrt(3.0 * static_cast<double>(o.features)))),
                        {o.experts}},
                       o.tensor);
  }
  at::Tensor weight;
};

/// The sample of each of `count` rows. Shape: [rows]
at::Tensor samples_of(const LocalTokenRows& rows, int64_t count) {
  std::vector<int64_t> samples;
  for (const TokenPlace& place : *rows.places(count)) samples.push_back(place.sample);
  return at::tensor(samples, at::kLong);
}

MixtureOfExpertsOptions checked(MixtureOfExpertsOptions o, int ranks) {
  require(o.features >= 1 && o.hidden_features >= 1 && o.experts >= 1, [&] {
    return "MixtureOfExperts: expected at least 1 feature, 1 hidden feature and 1 expert, got " +
           std::to_string(o.features) + ", " + std::to_string(o.hidden_features) + " and " + std::to_string(o.experts);
  });
  require(o.top_k >= 1 && o.top_k <= o.experts, [&] {
    return "MixtureOfExperts: expected 1 to " + std::to_string(o.experts) + " experts for each row, got " +
           std::to_string(o.top_k);
  });
  require(ranks <= o.experts, [&] {
    return "MixtureOfExperts: expected at most as many ranks along '" + o.experts_axis + "' as experts, got " +
           std::to_string(ranks) + " ranks and " + std::to_string(o.experts) + " experts";
  });
  return o;
}

}  // namespace

ExpertLoads::ExpertLoads() : outer_(std::exchange(counting, this)) {}
ExpertLoads::~ExpertLoads() {
  counting = outer_;
}

MixtureOfExpertsImpl::MixtureOfExpertsImpl(MixtureOfExpertsOptions options, const Grid& grid, const std::string& axis)
    : features_(grid.axis(axis)),
      experts_(options.experts_axis.empty() ? Communicator() : grid.axis(options.experts_axis)),
      samples_(options.samples_axis.empty() ? Communicator() : grid.axis(options.samples_axis)),
      split_experts_(Split::balanced(std::max<int64_t>(0, options.experts), experts_.size(), 0)) {
  options_ = checked(std::move(options), experts_.size());
  const auto router = register_module("router", std::make_shared<RouterImpl>(options_, grid, axis));
  router_ = router->weight;
  const auto hidden = [features = options_.hidden_features](int parts) {
    return fixed::cut_features(features, parts, 0);
  };
  const auto made = [hidden, is_swiglu = options_.activation == Activation::swiglu](int parts) {
    return is_swiglu ? stacked({hidden(parts), hidden(parts)}) : hidden(parts);
  };
  const int64_t of_made = made(1).size();
  using Cut = ParallelLinearOptions::Cut;
  const auto linear = [&](const char* name, Cut cut, int64_t in, int64_t out,
                          const std::function<Split(int parts)>& split, std::vector<int64_t> matrices) {
    return register_module(name, GroupedLinear(GroupedLinearOptions{.groups = options_.experts,
                                                                    .in_features = in,
                                                                    .out_features = out,
                                                                    .cut = cut,
                                                                    .split = split,
                                                                    .matrices = std::move(matrices),
                                                                    .groups_axis = options_.experts_axis,
                                                                    .deviation = options_.deviation,
                                                                    .tensor = options_.tensor},
                                               grid, axis));
  };
  column_ = linear("column", Cut::outputs, options_.features, of_made, made, matrices_of(of_made, options_.activation));
  row_ = linear("row", Cut::inputs, options_.hidden_features, options_.features, hidden, {options_.features});
}

at::Tensor MixtureOfExpertsImpl::forward(const at::Tensor& x, const ForwardPass& pass) {
  std::optional<Split> split;
  if (options_.split_rows) split = rows_of_ranks(pass.rows.size(), features_.size());
  // Each tensor-parallel rank has its own features of the experts of all these rows, so its results are summands; in a fixed order
  // the experts' products add them up.
  const auto order = FixedOrder::current();
  const auto for_own_features = [&](const at::Tensor& t) {
    if (order) return split ? gather_from(t, features_, *split) : t;
    return split ? all_gather(t, features_, *split) : copy_to(t, features_);
  };
  const auto [rows, gates, chosen] = route(x, pass, split);
  const bool has_lanes = order && order->gradients;
  const ExpertTokens way(chosen, split_experts_, experts_, x.device(),
                         has_lanes ? order->leaf_of_tokens() : std::vector<int64_t>(),
                         has_lanes ? order->numbers.all_lanes() * order->numbers.leaves : 0);
  const at::Tensor made = column_(way.to_experts(for_own_features(as_in_product(rows))), way.grouped());
  at::Tensor y = way.from_experts(row_(activated(made, options_.activation), way.grouped()));
  if (gates.defined()) y = y * for_own_features(gates).to(y.scalar_type()).unsqueeze(2);
  const at::Tensor summand = options_.top_k == 1 ? y.squeeze(1) : y.sum(1);
  if (order) return split ? scatter_to(summand, features_, *split) : summand;
  return split ? reduce_scatter(summand, features_, *split) : reduce_from(summand, features_);
}

at::Tensor MixtureOfExpertsImpl::scores_of(const at::Tensor& x, const std::optional<Split>& split) const {
  const auto order = FixedOrder::current();
  if (!order) return Scores::apply(x, router_);
  return fixed::linear(order, x.to(at::kFloat), router_, {}, {.group = features_}, split);
}

MixtureOfExpertsImpl::Routing MixtureOfExpertsImpl::route(const at::Tensor& x, const ForwardPass& pass,
                                                          const std::optional<Split>& split) const {
  // In 16 bits different scores could become equal. In float64 a kernel may sum equal rows of the weight in different orders,
  // so equal scores may differ slightly. Adding the largest possible score and rounding to float32 removes these differences at
  // any size, so ties stay ties.
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  for (const at::Tensor* t : {&x, &router_}) refuse_tangent("MixtureOfExperts", *t);
  const at::Tensor scores = scores_of(x, split);
  at::Tensor compared = scores.detach();  // in a fixed order equal scores have the same bits
  if (!FixedOrder::current()) {
    const at::Tensor largest = x.detach().norm(2, 1, true) * router_.detach().norm(2, 1).max();
    compared = (compared + largest).to(at::kFloat);
  }
  at::Tensor mine =
      std::get<1>(compared.sort(/*stable=*/true, /*dim=*/1, /*descending=*/true)).narrow(1, 0, options_.top_k);
  // The host counts rows, and waits for a device here.
  const at::Tensor chosen =
      AssumedExperts::in_place_of(split ? all_gather(mine, features_, *split) : mine, split_experts_, experts_.rank())
          .cpu();
  if (AssumedExperts::any())
    mine = (split ? chosen.narrow(0, split->offset(features_.rank()), split->size(features_.rank())) : chosen)
               .to(x.device());
  at::Tensor gates;
  if (!options_.normalises_gates)
    gates = probabilities(scores).gather(1, mine).to(router_.scalar_type());
  else if (options_.top_k > 1)
    gates = probabilities(scores.gather(1, mine)).to(router_.scalar_type());
  if (counting && features_.rank() == 0) {
    const at::Tensor rows = at::bincount(chosen.flatten(), {}, options_.experts);
    counting->rows.resize(static_cast<size_t>(options_.experts));
    for (int64_t expert = 0; expert < options_.experts; ++expert)
      counting->rows[static_cast<size_t>(expert)] += static_cast<double>(rows.const_data_ptr<int64_t>()[expert]);
  }
  const bool has_losses = pass.step.loss_share != 0 && (options_.balance_loss != 0 || options_.z_loss != 0);
  return {has_losses ? WithLoss::apply(x, own_losses(scores, chosen, pass)) : x, gates, chosen};
}

at::Tensor MixtureOfExpertsImpl::own_losses(const at::Tensor& scores, const at::Tensor& chosen,
                                            const ForwardPass& pass) const {
  const LocalTokenRows here = options_.split_rows ? rows_of_rank(pass.rows, features_) : pass.rows;
  const int64_t experts = options_.experts, rows = scores.size(0);
  const at::Tensor lengths =
      (pass.rows ? at::tensor(pass.rows.all().lengths(), at::kLong) : at::ones({rows}, at::kLong))
          .to(scores.scalar_type());
  const at::Tensor pairs = samples_of(pass.rows, chosen.size(0)).unsqueeze(1) * experts + chosen;
  const at::Tensor loads = sum(at::bincount(pairs.flatten(), {}, lengths.size(0) * experts), samples_);
  const at::Tensor parts =
      (loads.view({lengths.size(0), experts}) / (lengths.unsqueeze(1) * static_cast<double>(options_.top_k)))
          .to(scores.device());
  const at::Tensor samples = samples_of(here, rows);
  const at::Tensor of_row = pass.step.loss_share_is_per_token
                                ? at::ones({rows}, scores.options().requires_grad(false)) * pass.step.loss_share
                                : (pass.step.loss_share / lengths.index_select(0, samples)).to(scores.device());
  const auto sum_over_rows = [](const at::Tensor& losses) {
    constexpr int kBits = 40;  // they are below 2^13
    return FixedOrder::current() ? fixed::sum_of_losses(losses, kBits) : losses.sum();
  };
  const at::Tensor balance =
      sum_over_rows((probabilities(scores) * parts.index_select(0, samples.to(scores.device()))).sum(1) * of_row) *
      static_cast<double>(experts);
  const at::Tensor z = sum_over_rows(at::logsumexp(scores, {1}).square() * of_row);
  if (counting && (options_.split_rows || features_.rank() == 0)) {
    counting->balance += balance.item<double>();
    counting->z += z.item<double>();
  }
  return balance * options_.balance_loss + z * options_.z_loss;
}

}  // namespace adjoin::nn
