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

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/mappings.hpp"
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

/// All rows from this rank's.
at::Tensor joined(const at::Tensor& x, const CutFeatures& cut, const Split& rows) {
  BlockStaging staging;
  return join_blocks(x, cut.group, rows, staging);
}

/// a b^T, where columns of both are cut: the sum over their parts and ranks, or this rank's rows of it.
at::Tensor product_over_parts(const at::Tensor& a, const at::Tensor& b, const CutFeatures& cut,
                              const std::optional<Split>& rows) {
  return sum_over_parts(cut, rows, {a.size(0), b.size(0)}, a.options(), [&](const std::vector<Range>& features) {
    return product(ranges_of(a, 1, features), ranges_of(b, 1, features).t());
  });
}

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const Order& order, const CutFeatures& cut,
                            const std::optional<Split>& rows) {
    ctx->save_for_backward({x, weight, bias.value_or(at::Tensor())});
    ctx->saved_data["order"] = saved_value(order);
    ctx->saved_data["cut"] = saved_value(cut);
    ctx->saved_data["rows"] = saved_value(rows);
    const at::Tensor mine = as_matrix(x), used = weight.detach().to(x.scalar_type());
    at::Tensor y = cut.in == In::forward
                       ? product_over_parts(mine, used, cut, rows)
                       : product(rows && cut.in == In::backward ? joined(mine, cut, *rows) : mine, used.t());
    if (bias) y = y.add_(bias->to(y.scalar_type()));
    if (rows) return y;
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
    const auto& rows = value_of<std::optional<Split>>(ctx->saved_data["rows"]);
    const auto all = [&](const at::Tensor& t, In unless) {
      return rows && cut.in != unless ? joined(as_matrix(t), cut, *rows) : as_matrix(t);
    };
    const at::Tensor of_y = all(gradients[0], In::backward);
    at::Tensor of_x;
    if (ctx->needs_input_grad(0)) {
      const at::Tensor used = weight.detach().to(of_y.scalar_type());
      of_x = cut.in == In::backward ? product_over_parts(of_y, used.t(), cut, rows)
                                    : product(cut.in == In::none ? as_matrix(gradients[0]) : of_y, used);
      of_x = of_x.view_as(x);
    }
    if (ctx->needs_input_grad(1))
      add_to_lanes(order, weight, WeightUse::product, of_y.size(0),
                   [of_y, all_x = all(x, In::forward).detach()](const auto& sum, auto leaves) {
                     add_outer_products(sum, of_y, all_x, leaves);
                   });
    if (bias.defined() && ctx->needs_input_grad(2))
      add_to_lanes(order, bias, WeightUse::product, of_y.size(0),
                   [of_y](const auto& sum, auto leaves) { add_column_sums(sum, of_y, leaves); });
    return {of_x, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  using In = CutFeatures::In;
};

/// Sums over columns of x [rows, features], block by block, where each rank of a group has some blocks of a micro-batch's tokens.
/// A collective where the group has several ranks.
AddToSum sums_of_columns(const Order& order, const at::Tensor& x, const Communicator& group) {
  if (group.size() == 1)
    return [order, x](const at::Tensor& sum, std::span<const Range> leaves) {
      add_column_sums(sum, x, order->blocks_of(leaves));
    };
  const std::vector<Range> blocks = order->blocks_of(order->rows_of(order->leaves, order->tokens));
  const Split of_ranks = Split::balanced(std::ssize(blocks), group.size(), 0);
  const int64_t first = of_ranks.offset(group.rank()), count = of_ranks.size(group.rank());
  const at::Tensor here = at::zeros({count, x.size(1)}, x.options().dtype(at::kFloat));
  for (int64_t i = 0, row = 0; i < count; ++i) {
    const int64_t begin = std::exchange(row, row + blocks[static_cast<size_t>(first + i)].size());
    add_column_sums(here[i], x, std::array{Range{begin, row}});
  }
  BlockStaging staging;
  return [blocks, sums = join_blocks(here, group, of_ranks, staging)](const at::Tensor& sum,
                                                                      std::span<const Range> leaves) {
    for (size_t i = 0; i < blocks.size(); ++i)
      if (std::ranges::any_of(
              leaves, [&](const Range& leaf) { return blocks[i].begin >= leaf.begin && blocks[i].end <= leaf.end; }))
        at::Tensor(sum).add_(sums[static_cast<int64_t>(i)]);
  };
}

struct Scaled : torch::autograd::Function<Scaled> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const Order& order, const Communicator& group) {
    ctx->save_for_backward({x, weight, bias.value_or(at::Tensor())});
    ctx->saved_data["order"] = saved_value(order);
    ctx->saved_data["group"] = saved_value(group);
    const at::Tensor y = x * weight;
    return bias ? y.add_(*bias) : y;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const Order& order = value_of<Order>(ctx->saved_data["order"]);
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &weight = saved[1], &bias = saved[2], &of_y = gradients[0];
    const at::Tensor x = saved[0].detach();
    const auto& group = value_of<Communicator>(ctx->saved_data["group"]);
    const int64_t rows = group.size() == 1 ? x.size(0) : order->tokens;
    if (ctx->needs_input_grad(1))
      add_to_lanes(order, weight, WeightUse::product, rows, sums_of_columns(order, of_y * x, group));
    if (bias.defined() && ctx->needs_input_grad(2))
      add_to_lanes(order, bias, WeightUse::product, rows, sums_of_columns(order, of_y, group));
    return {(of_y * weight.detach()).to(x.scalar_type()), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
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
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& losses, double steps) {
    ctx->save_for_backward({losses});
    return losses.detach().to(at::kDouble).mul(steps).round_().sum().div_(steps);
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const at::Tensor losses = ctx->get_saved_variables()[0];
    return {gradients[0].to(losses.scalar_type()).expand_as(losses), at::Tensor()};
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

at::Tensor ranges_of(const at::Tensor& x, int64_t dim, const std::vector<Range>& ranges) {
  std::vector<Range> joined;
  for (const Range& range : ranges)
    if (joined.empty() || joined.back().end != range.begin)
      joined.push_back(range);
    else
      joined.back().end = range.end;
  if (joined.empty()) return x.narrow(dim, 0, 0);
  // A product's bits may depend on how its factors lie in memory, so several ranges lie as one would.
  const bool is_transposed = x.dim() == 2 && x.stride(dim) > x.stride(1 - dim);
  std::vector<at::Tensor> some;
  for (const Range& range : joined) some.push_back(x.narrow(dim, range.begin, range.size()));
  if (some.size() == 1) return some[0];
  if (!is_transposed) return at::cat(some, dim);
  for (at::Tensor& one : some) one = one.t();
  return at::cat(some, 1 - dim).t();
}

at::Tensor sum_over_parts(const CutFeatures& cut, const std::optional<Split>& rows, const std::vector<int64_t>& shape,
                          const at::TensorOptions& options,
                          const std::function<at::Tensor(const std::vector<Range>& features)>& of_part) {
  const WholeParts& parts = *cut.parts;
  const Range mine = parts.held_by(cut.group.rank());
  const auto there = [&](Range node) -> std::optional<at::Tensor> {
    if (node.size() > 1) return std::nullopt;
    return of_part(parts.local[static_cast<size_t>(node.begin - mine.begin)]);
  };
  const auto add = [](at::Tensor left, const at::Tensor& right) { return left.add_(right); };
  std::vector<at::Tensor> nodes;
  for (const Range& node : parts.tree.nodes_of(mine)) nodes.push_back(*sum_of_node<at::Tensor>(node, there, add));
  if (!rows) return all_reduce_nodes(nodes, parts.tree, parts.held, cut.group, shape, options);
  std::vector<int64_t> sizes = rows->sizes();
  for (int64_t& size : sizes) size *= shape[1];
  for (at::Tensor& node : nodes) node = node.view({-1});
  return reduce_scatter_nodes(nodes, parts.tree, parts.held, sizes, cut.group, options).view({-1, shape[1]});
}

at::Tensor linear(const Order& order, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const CutFeatures& cut, const std::optional<Split>& rows) {
  return Linear::apply(x, weight, optional(bias), order, cut, rows);
}

at::Tensor scaled(const Order& order, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const Communicator& group) {
  return Scaled::apply(x, weight, optional(bias), order, group);
}

at::Tensor look_up(const Order& order, const at::Tensor& weight, const at::Tensor& ids) {
  return Lookup::apply(weight, ids, order);
}

at::Tensor activated(const at::Tensor& x, Curve curve) {
  return Activated::apply(x, curve);
}

at::Tensor sum_of_losses(const at::Tensor& losses, int bits) {
  return SumOfLosses::apply(losses, std::ldexp(1.0, bits));
}

}  // namespace adjoin::nn::fixed
