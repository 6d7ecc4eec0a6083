#include "adjoin/nn/fixed/layers.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/saved_value.hpp"
#include "adjoin/movement/sum_of_nodes.hpp"
#include "adjoin/nn/fixed/column_sums.hpp"
#include "adjoin/nn/fixed/elementwise.hpp"
#include "adjoin/nn/fixed/product.hpp"

namespace adjoin::nn::fixed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using Order = std::shared_ptr<const FixedOrder>;

at::Tensor as_matrix(const at::Tensor& x) {
  return x.dim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2);
}

/// The columns of some ranges.
at::Tensor columns_of(const at::Tensor& x, const std::vector<Range>& ranges) {
  std::vector<at::Tensor> some;
  for (const Range& range : ranges) some.push_back(x.narrow(1, range.begin, range.size()));
  return some.empty() ? x.narrow(1, 0, 0) : some.size() == 1 ? some[0] : at::cat(some, 1);
}

/// a b^T, where columns of both are cut: the sum over their parts and ranks.
at::Tensor product_over_parts(const at::Tensor& a, const at::Tensor& b, const CutFeatures& cut) {
  const WholeParts& parts = *cut.parts;
  const Range mine = parts.held_by(cut.group.rank());
  const auto of_part = [&](Range node) -> std::optional<at::Tensor> {
    if (node.size() > 1) return std::nullopt;
    const std::vector<Range>& ranges = parts.local[static_cast<size_t>(node.begin - mine.begin)];
    return product(columns_of(a, ranges), columns_of(b, ranges).t());
  };
  const auto add = [](at::Tensor left, const at::Tensor& right) { return left.add_(right); };
  std::vector<at::Tensor> nodes;
  for (const Range& node : parts.tree.nodes_of(mine)) nodes.push_back(*sum_of_node<at::Tensor>(node, of_part, add));
  return all_reduce_nodes(nodes, parts.tree, parts.held, cut.group, {a.size(0), b.size(0)}, a.options());
}

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const Order& order, const CutFeatures& cut) {
    ctx->save_for_backward({x, weight, bias.value_or(at::Tensor())});
    ctx->saved_data["order"] = saved_value(order);
    ctx->saved_data["cut"] = saved_value(cut);
    const at::Tensor rows = as_matrix(x), used = weight.detach().to(x.scalar_type());
    at::Tensor y = cut.in == CutFeatures::In::forward ? product_over_parts(rows, used, cut) : product(rows, used.t());
    if (bias) y = y.add_(bias->to(y.scalar_type()));
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = y.size(1);
    return y.view(shape);
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "products in a fixed order: double backward is not supported");
    const Order& order = value_of<Order>(ctx->saved_data["order"]);
    const auto& cut = value_of<CutFeatures>(ctx->saved_data["cut"]);
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const at::Tensor of_y = as_matrix(gradients[0]), rows = as_matrix(x).detach();
    at::Tensor of_x;
    if (ctx->needs_input_grad(0)) {
      const at::Tensor used = weight.detach().to(of_y.scalar_type());
      of_x = cut.in == CutFeatures::In::backward ? product_over_parts(of_y, used.t(), cut) : product(of_y, used);
      of_x = of_x.view_as(x);
    }
    if (ctx->needs_input_grad(1))
      add_to_lanes(order, weight, WeightUse::product, of_y.size(0),
                   [of_y, rows](const auto& sum, auto leaves) { add_outer_products(sum, of_y, rows, leaves); });
    if (bias.defined() && ctx->needs_input_grad(2))
      add_to_lanes(order, bias, WeightUse::product, of_y.size(0),
                   [of_y](const auto& sum, auto leaves) { add_column_sums(sum, of_y, leaves); });
    return {of_x, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct Scaled : torch::autograd::Function<Scaled> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const Order& order) {
    ctx->save_for_backward({x, weight, bias.value_or(at::Tensor())});
    ctx->saved_data["order"] = saved_value(order);
    const at::Tensor y = x * weight;
    return bias ? y.add_(*bias) : y;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const Order& order = value_of<Order>(ctx->saved_data["order"]);
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &weight = saved[1], &bias = saved[2], &of_y = gradients[0];
    const at::Tensor x = saved[0].detach();
    if (ctx->needs_input_grad(1))
      add_to_lanes(order, weight, WeightUse::product, x.size(0),
                   [of_y, x](const auto& sum, auto leaves) { add_column_sums(sum, of_y * x, leaves); });
    if (bias.defined() && ctx->needs_input_grad(2))
      add_to_lanes(order, bias, WeightUse::product, x.size(0),
                   [of_y](const auto& sum, auto leaves) { add_column_sums(sum, of_y, leaves); });
    return {(of_y * weight.detach()).to(x.scalar_type()), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct Lookup : torch::autograd::Function<Lookup> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weight, const at::Tensor& ids, const Order& order) {
    ctx->save_for_backward({weight, ids});
    ctx->saved_data["order"] = saved_value(order);
    return at::embedding(weight, ids).add_(0);  // so that -0 is 0, as after a sum over ranks that hold other words
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const Order& order = value_of<Order>(ctx->saved_data["order"]);
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &ids = saved[1], &of_y = gradients[0];
    add_to_lanes(order, saved[0], WeightUse::look_up, ids.size(0),
                 [of_y, ids](const auto& sum, auto leaves) { add_rows(sum, ids, of_y, leaves); });
    return {at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct Activated : torch::autograd::Function<Activated> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, Curve curve) {
    ctx->save_for_backward({x});
    ctx->saved_data["curve"] = static_cast<int64_t>(curve);
    return elementwise({x}, [curve](at::Tensor out, const std::vector<at::Tensor>& in) {
      if (curve == Curve::silu)
        at::silu_out(out, in[0]);
      else
        at::gelu_out(out, in[0], curve == Curve::gelu ? "none" : "tanh");
    });
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "activations in a fixed order: double backward is not supported");
    const auto curve = static_cast<Curve>(ctx->saved_data["curve"].toInt());
    const at::Tensor of_x = elementwise(
        {gradients[0], ctx->get_saved_variables()[0]}, [curve](at::Tensor out, const std::vector<at::Tensor>& in) {
          if (curve == Curve::silu)
            at::silu_backward_out(out, in[0], in[1]);
          else
            at::gelu_backward_out(out, in[0], in[1], curve == Curve::gelu ? "none" : "tanh");
        });
    return {of_x, at::Tensor()};
  }
};

struct SumOfLosses : torch::autograd::Function<SumOfLosses> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& losses) {
    constexpr double kSteps = 1 << 24;
    ctx->save_for_backward({losses});
    return losses.detach().to(at::kDouble).mul(kSteps).round_().sum().div_(kSteps);
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const at::Tensor losses = ctx->get_saved_variables()[0];
    return {gradients[0].to(losses.scalar_type()).expand_as(losses)};
  }
};

std::optional<at::Tensor> optional(const at::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

}  // namespace

Split cut_features(int64_t features, int ranks, int64_t dim, int64_t unit) {
  const auto order = FixedOrder::current();
  if (!order || ranks >= order->numbers.features) return Split::balanced(features, ranks, dim, unit);
  const auto parts = static_cast<int>(order->numbers.features);
  const Split whole = Split::balanced(features, parts, dim, unit);
  std::vector<int64_t> starts;
  for (int rank = 0; rank < ranks; ++rank)
    starts.push_back(whole.offset(static_cast<int>(balanced_range(parts, ranks, rank).begin)));
  return Split::at(std::move(starts), features, dim);
}

void CutFeatures::divide(const FixedOrder& order, const std::function<Split(int parts)>& into,
                         const std::string& what) {
  if (in == In::none || (parts && parts->tree.parts == order.numbers.features)) return;
  parts = std::make_shared<const WholeParts>(into(group.size()), group.rank(),
                                             into(static_cast<int>(order.numbers.features)), what);
}

at::Tensor linear(const Order& order, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const CutFeatures& cut) {
  return Linear::apply(x, weight, optional(bias), order, cut);
}

at::Tensor scaled(const Order& order, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return Scaled::apply(x, weight, optional(bias), order);
}

at::Tensor look_up(const Order& order, const at::Tensor& weight, const at::Tensor& ids) {
  return Lookup::apply(weight, ids, order);
}

at::Tensor activated(const at::Tensor& x, Curve curve) {
  return Activated::apply(x, curve);
}

at::Tensor sum_of_losses(const at::Tensor& losses) {
  return SumOfLosses::apply(losses);
}

}  // namespace adjoin::nn::fixed
