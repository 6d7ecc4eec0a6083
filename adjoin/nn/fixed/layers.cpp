#include "adjoin/nn/fixed/layers.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/log_softmax.h>
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
#include "adjoin/movement/linear_map.hpp"
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

/// Some ranges of x along one of its last two dims; a view where they are one.
at::Tensor ranges_of(const at::Tensor& x, int64_t dim, const std::vector<Range>& ranges) {
  std::vector<Range> joined;
  for (const Range& range : ranges)
    if (joined.empty() || joined.back().end != range.begin)
      joined.push_back(range);
    else
      joined.back().end = range.end;
  if (joined.empty()) return x.narrow(dim, 0, 0);
  // A product's bits may depend on how its factors lie in memory, so several ranges lie as one would.
  const bool is_transposed = x.stride(-1) > x.stride(-2);
  std::vector<at::Tensor> some;
  for (const Range& range : joined) some.push_back(x.narrow(dim, range.begin, range.size()));
  if (some.size() == 1) return some[0];
  if (!is_transposed) return at::cat(some, dim);
  for (at::Tensor& one : some) one = one.mT();
  return at::cat(some, -3 - dim).mT();
}

/// The order of the rows from one of some ranks, whose "tokens" are the leaves of which it has rows.
Order order_of(const FixedOrder& order, const std::vector<std::vector<Range>>& leaves, int source, bool is_last) {
  auto of_source = std::make_shared<FixedOrder>(order);
  of_source->source = source;
  of_source->is_last = order.is_last && is_last;
  of_source->leaves.clear();
  for (int64_t i = 0; i < std::ssize(leaves); ++i)
    if (std::ranges::any_of(leaves[static_cast<size_t>(i)], [](const Range& rows) { return rows.size() > 0; }))
      of_source->leaves.push_back({.lane = i / order.numbers.leaves, .tokens = {i, i + 1}, .samples = {}});
  of_source->tokens = std::ssize(leaves);
  of_source->samples = -1;
  return of_source;
}

/// What a product has besides its factors.
struct ProductOptions {
  using In = CutFeatures::In;

  Order order;
  CutFeatures cut;
  std::optional<Split> rows = {};
  std::optional<GroupedRows> groups = {};

  /// The weight, or one matrix for each group, in a product with x.
  at::Tensor factor(const at::Tensor& weight, const at::Tensor& x) const {
    const at::Tensor used = weight.detach().to(x.scalar_type());
    return groups ? by_group(used, groups->of_group.size()) : used;
  }
  /// a times the factor, of which a dim is summed over: its last one, or the one before. Where `in` is the cut one, the sum is over
  /// its parts and ranks, or this rank's rows of it.
  at::Tensor multiply(const at::Tensor& a, const at::Tensor& factor, int64_t dim, In in) const {
    const auto of = [&](const at::Tensor& left, const at::Tensor& some) {
      const at::Tensor right = dim == -1 ? some.mT() : some;
      if (!groups) return product(left, right);
      return products_of_groups(
          left, right, groups->of_group,
          [](at::Tensor out, const at::Tensor& x, const at::Tensor& y) { out.copy_(product(x, y)); });
    };
    if (cut.in != in) return of(a, factor);
    return sum_over_parts(*cut.parts, cut.group, rows, {a.size(0), factor.size(-3 - dim)}, a.options(),
                          [&](const std::vector<Range>& features) {
                            return of(ranges_of(a, -1, features), ranges_of(factor, dim, features));
                          });
  }
  /// All rows of a tensor, of which ranks hold some unless features are cut in this direction.
  at::Tensor all_rows(const at::Tensor& x, In unless) const {
    return rows && cut.in != unless ? join_blocks(as_matrix(x), cut.group, *rows) : as_matrix(x);
  }
};

struct Product : torch::autograd::Function<Product> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const ProductOptions& options) {
    ctx->save_for_backward({x, weight, bias.value_or(at::Tensor())});
    ctx->saved_data["options"] = saved_value(options);
    const at::Tensor rows = options.cut.in == In::backward ? options.all_rows(x, In::forward) : as_matrix(x);
    at::Tensor y = options.multiply(rows, options.factor(weight, x), -1, In::forward);
    if (bias) y = y.add_(bias->to(y.scalar_type()));
    if (options.rows) return y;
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = y.size(1);
    return y.view(shape);
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const auto& options = value_of<ProductOptions>(ctx->saved_data["options"]);
    const auto& [order, cut, rows, groups] = options;
    require(!at::GradMode::is_enabled(), [&] {
      return std::string("products ") + (groups ? "of groups " : "") +
             "in a fixed order: double backward is not supported";
    });
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const at::Tensor of_y = options.all_rows(gradients[0], In::backward);
    at::Tensor of_x;
    if (ctx->needs_input_grad(0))
      of_x = options
                 .multiply(cut.in == In::none ? as_matrix(gradients[0]) : of_y, options.factor(weight, of_y), -2,
                           In::backward)
                 .view_as(x);
    if (ctx->needs_input_grad(1) && groups) add_sources(*order, weight, *groups, of_y, x.detach());
    if (ctx->needs_input_grad(1) && !groups)
      add_to_lanes(order, weight, WeightUse::product, of_y.size(0),
                   [of_y, all_x = options.all_rows(x, In::forward).detach()](const auto& sum, auto leaves) {
                     add_outer_products(sum, of_y, all_x, leaves);
                   });
    if (bias.defined() && ctx->needs_input_grad(2))
      add_to_lanes(order, bias, WeightUse::product, of_y.size(0),
                   [of_y](const auto& sum, auto leaves) { add_column_sums(sum, of_y, leaves); });
    return {of_x, at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  using In = CutFeatures::In;

  static void add_sources(const FixedOrder& order, const at::Tensor& weight, const GroupedRows& groups,
                          const at::Tensor& of_y, const at::Tensor& x) {
    for (int source = 0; groups.sources && source < std::ssize(*groups.sources); ++source) {
      const auto& of_leaves = (*groups.sources)[static_cast<size_t>(source)];
      const auto add = [of_y, x, sources = groups.sources, &of_leaves](const at::Tensor& sum,
                                                                       std::span<const Range> leaves) {
        for (const Range& leaf : leaves) {
          const auto& of_groups = of_leaves[static_cast<size_t>(leaf.begin)];
          const at::Tensor sums = by_group(sum, of_groups.size());
          for (size_t group = 0; group < of_groups.size(); ++group)
            add_outer_products(sums[static_cast<int64_t>(group)], of_y, x, std::span(&of_groups[group], 1));
        }
      };
      add_to_lanes(order_of(order, of_leaves, source, source + 1 == std::ssize(*groups.sources)), weight,
                   WeightUse::product, std::ssize(of_leaves), add);
    }
  }
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
  return [blocks, sums = join_blocks(here, group, of_ranks)](const at::Tensor& sum, std::span<const Range> leaves) {
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

at::Tensor sum_over_parts(const WholeParts& parts, const Communicator& group, const std::optional<Split>& rows,
                          const std::vector<int64_t>& shape, const at::TensorOptions& options,
                          const std::function<at::Tensor(const std::vector<Range>& features)>& of_part) {
  SumArrivals<at::Tensor> sums(parts.tree,
                               [](const at::Tensor& left, const at::Tensor& right) { return left.add_(right); });
  for (int64_t part = parts.held_by(group.rank()).begin; const std::vector<Range>& features : parts.local) {
    sums.add({part, part + 1}, of_part(features));
    ++part;
  }
  std::vector<at::Tensor> nodes;
  for (const auto& [node, sum] : sums.nodes()) nodes.push_back(rows ? sum.view({-1}) : sum);
  if (!rows) return all_reduce_nodes(nodes, parts.tree, parts.held, group, shape, options);
  std::vector<int64_t> sizes = rows->sizes();
  for (int64_t& size : sizes) size *= shape[1];
  return reduce_scatter_nodes(nodes, parts.tree, parts.held, sizes, group, options).view({-1, shape[1]});
}

at::Tensor by_group(const at::Tensor& weight, size_t groups) {
  const auto count = static_cast<int64_t>(groups);
  return weight.view({count, weight.size(0) / count, weight.size(1)});
}

at::Tensor products_of_groups(const at::Tensor& a, const at::Tensor& b, const std::vector<int64_t>& rows_of,
                              void (*into)(at::Tensor out, const at::Tensor& a, const at::Tensor& b)) {
  at::Tensor y = at::empty({a.size(0), b.size(2)}, a.options());
  int64_t first = 0;
  for (size_t group = 0; group < rows_of.size(); first += rows_of[group++])
    if (const int64_t rows = rows_of[group]; rows > 0)
      into(y.narrow(0, first, rows), a.narrow(0, first, rows), b[static_cast<int64_t>(group)]);
  return y;
}

at::Tensor as_matrix(const at::Tensor& x) {
  return x.dim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2);
}

at::Tensor linear(const Order& order, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const CutFeatures& cut, const std::optional<Split>& rows, const std::optional<GroupedRows>& groups) {
  return Product::apply(x, weight, optional(bias), ProductOptions{order, cut, rows, groups});
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

at::Tensor softmax_of_rows(const at::Tensor& x) {
  return at::log_softmax(x, 1).exp();
}

at::Tensor sum_of_losses(const at::Tensor& losses, int bits) {
  const double steps = std::ldexp(1.0, bits);
  const auto forward = [=](const at::Tensor& x) { return x.to(at::kDouble).mul(steps).round_().sum().div_(steps); };
  const auto adjoint = [type = losses.scalar_type(), sizes = losses.sizes().vec()](const at::Tensor& of_sum) {
    return of_sum.to(type).expand(sizes);
  };
  return apply({.forward = forward, .adjoint = adjoint}, losses);
}

}  // namespace adjoin::nn::fixed
