#include "adjoin/nn/fixed/grouped.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <torch/csrc/autograd/custom_function.h>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/saved_value.hpp"
#include "adjoin/nn/fixed/product.hpp"

namespace adjoin::nn::fixed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using Order = std::shared_ptr<const FixedOrder>;

/// Each group's rows of a times its matrix of b [groups, n, m].
at::Tensor products_of(const at::Tensor& a, const at::Tensor& b, const std::vector<int64_t>& rows_of) {
  at::Tensor y = at::empty({a.size(0), b.size(2)}, a.options());
  int64_t first = 0;
  for (size_t group = 0; group < rows_of.size(); first += rows_of[group++])
    if (rows_of[group] > 0)
      y.narrow(0, first, rows_of[group])
          .copy_(product(a.narrow(0, first, rows_of[group]), b[static_cast<int64_t>(group)]));
  return y;
}

/// The order of the rows from one rank, whose "tokens" are its leaves.
Order order_of(const FixedOrder& order, const RowsOfSource& rows, int source, bool is_last) {
  auto of_source = std::make_shared<FixedOrder>(order);
  of_source->source = source;
  of_source->is_last = order.is_last && is_last;
  of_source->leaves.clear();
  for (int64_t i = 0; i < std::ssize(rows.leaves); ++i)
    of_source->leaves.push_back(
        {.lane = rows.leaves[static_cast<size_t>(i)] / order.numbers.leaves, .tokens = {i, i + 1}, .samples = {}});
  of_source->tokens = std::ssize(rows.leaves);
  of_source->samples = -1;
  return of_source;
}

struct Grouped : torch::autograd::Function<Grouped> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const Order& order,
                            const GroupedRows& rows, const CutFeatures& cut) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["order"] = saved_value(order);
    ctx->saved_data["rows"] = saved_value(rows);
    ctx->saved_data["cut"] = saved_value(cut);
    const at::Tensor matrices = by_group(weight, rows, x.scalar_type());
    if (cut.in != CutFeatures::In::forward) return products_of(x, matrices.transpose(1, 2), rows.of_group);
    return sum_over_parts(cut, {}, {x.size(0), matrices.size(1)}, x.options(), [&](const std::vector<Range>& features) {
      return products_of(ranges_of(x, 1, features), ranges_of(matrices, 2, features).transpose(1, 2), rows.of_group);
    });
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "products of groups in a fixed order: double backward is not supported");
    const Order& order = value_of<Order>(ctx->saved_data["order"]);
    const auto& rows = value_of<GroupedRows>(ctx->saved_data["rows"]);
    const auto& cut = value_of<CutFeatures>(ctx->saved_data["cut"]);
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &weight = saved[1], x = saved[0].detach(), of_y = gradients[0];
    at::Tensor of_x;
    if (ctx->needs_input_grad(0)) {
      const at::Tensor matrices = by_group(weight, rows, of_y.scalar_type());
      of_x = cut.in != CutFeatures::In::backward
                 ? products_of(of_y, matrices, rows.of_group)
                 : sum_over_parts(cut, {}, x.sizes().vec(), x.options(), [&](const std::vector<Range>& features) {
                     return products_of(ranges_of(of_y, 1, features), ranges_of(matrices, 1, features), rows.of_group);
                   });
    }
    if (ctx->needs_input_grad(1) && rows.sources)
      for (int source = 0; source < std::ssize(*rows.sources); ++source)
        add_source(*order, weight, rows, source, of_y, x);
    return {of_x, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  /// [groups * out, in] -> [groups, out, in]
  static at::Tensor by_group(const at::Tensor& weight, const GroupedRows& rows, at::ScalarType type) {
    const int64_t groups = std::ssize(rows.of_group);
    return weight.detach().to(type).view({groups, weight.size(0) / groups, weight.size(1)});
  }
  static void add_source(const FixedOrder& order, const at::Tensor& weight, const GroupedRows& rows, int source,
                         const at::Tensor& of_y, const at::Tensor& x) {
    const RowsOfSource& of_source = (*rows.sources)[static_cast<size_t>(source)];
    const auto add = [of_y, x, rows, source](const at::Tensor& sum, std::span<const Range> leaves) {
      const at::Tensor sums = by_group(sum, rows, sum.scalar_type());
      for (const Range& leaf : leaves) {
        const auto& of_groups = (*rows.sources)[static_cast<size_t>(source)].rows[static_cast<size_t>(leaf.begin)];
        for (size_t group = 0; group < of_groups.size(); ++group)
          add_outer_products(sums[static_cast<int64_t>(group)], of_y, x, std::span(&of_groups[group], 1));
      }
    };
    const Order of_rows = order_of(order, of_source, source, source + 1 == std::ssize(*rows.sources));
    add_to_lanes(of_rows, weight, WeightUse::product, std::ssize(of_source.leaves), add);
  }
};

}  // namespace

at::Tensor grouped(const Order& order, const at::Tensor& x, const at::Tensor& weight, const GroupedRows& rows,
                   const CutFeatures& cut) {
  return Grouped::apply(x, weight, order, rows, cut);
}

at::Tensor softmax_of_rows(const at::Tensor& x) {
  return at::log_softmax(x, 1).exp();
}

}  // namespace adjoin::nn::fixed
