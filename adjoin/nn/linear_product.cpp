#include "adjoin/nn/linear_product.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/blocks.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/postponed.hpp"
#include "adjoin/movement/saved_value.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

at::Tensor all_of(const at::Tensor& x, const SplitRows& rows) {
  BlockStaging staging;
  return join_blocks(x, rows.group, rows.split, staging);
}
at::Tensor sum_of(const at::Tensor& of_all, const SplitRows& rows) {
  BlockStaging staging;
  return sum_blocks(of_all, rows.group, rows.split, staging);
}

/// [*, features] -> [rows, features]
at::Tensor as_matrix(const at::Tensor& x) {
  return x.dim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2);
}

/// x W^T + b. For a single row this is a matrix times a vector: MKL then reads the weight on one core, on AMD processors at
/// half the speed of the memory. As a batch of several products it takes two fifths of that time on two cores.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  constexpr int64_t kParts = 4, kLeastElements = 1 << 16;
  const bool is_row = x.dim() == 2 && x.size(0) == 1 && weight.is_contiguous() && weight.numel() >= kLeastElements &&
                      weight.size(0) >= kParts && c10::elementSize(weight.scalar_type()) >= 4;
  if (!is_row) return at::linear(x, weight, bias);
  const int64_t each = weight.size(0) / kParts, in = weight.size(1);
  const at::Tensor column = x.t().expand({kParts, in, 1});
  at::Tensor y = weight.narrow(0, 0, kParts * each).view({kParts, each, in}).bmm(column).view({1, kParts * each});
  if (const int64_t rest = weight.size(0) % kParts; rest > 0)
    y = at::cat({y, at::linear(x, weight.narrow(0, kParts * each, rest))}, 1);
  return bias ? y + *bias : y;
}

struct LinearProduct : torch::autograd::Function<LinearProduct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const std::optional<SplitRows>& rows) {
    const at::Tensor used = as_in_product(weight);
    ctx->save_for_backward({x, weight, bias.value_or(at::Tensor())});
    if (rows) ctx->saved_data["rows"] = saved_value(*rows);
    return product(rows ? all_of(x, *rows) : x, used, bias);
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const auto found = ctx->saved_data.find("rows");
    const SplitRows* rows = found == ctx->saved_data.end() ? nullptr : &value_of<SplitRows>(found->second);
    const bool creates_graph = at::GradMode::is_enabled();
    require(!rows || !creates_graph, "linear_product of split rows: double backward is not supported");
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const at::Tensor of_y = as_matrix(gradients[0]);

    at::Tensor of_x;
    if (rows || ctx->needs_input_grad(0)) {
      const at::Tensor of_all = of_y.mm(weight.to(of_y.scalar_type()).conj());
      of_x = rows ? sum_of(of_all, *rows) : of_all.view_as(x);
    }
    at::Tensor all = as_matrix(rows ? all_of(x, *rows) : x);
    if (!creates_graph) all = all.detach();  // the postponed part keeps no graph
    at::Tensor of_weight, of_bias;
    if (ctx->needs_input_grad(1))
      of_weight = parameter_gradient(
          weight, [of_y, all, type = weight.scalar_type()] { return of_y.t().mm(all.conj()).to(type); });
    if (bias.defined() && ctx->needs_input_grad(2))
      of_bias = parameter_gradient(bias, [of_y, type = bias.scalar_type()] { return of_y.sum(0).to(type); });
    return {of_x, of_weight, of_bias, at::Tensor()};
  }
};

}  // namespace

at::Tensor as_in_product(const at::Tensor& x) {
  return at::autocast::is_autocast_enabled(at::kCPU)
             ? at::autocast::cached_cast(at::autocast::get_autocast_dtype(at::kCPU), x, at::kCPU)
             : x;
}

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          const std::optional<SplitRows>& rows) {
  require(!rows || (x.dim() == 2 && rows->split.parts() == rows->group.size() &&
                    x.size(0) == rows->split.size(rows->group.rank())),
          [&] {
            return "linear_product: rank " + std::to_string(rows->group.rank()) +
                   ": expected this rank's rows of the split " + rows->split.to_string() + ", got " +
                   std::to_string(x.size(0)) + " rows";
          });
  for (const at::Tensor* t : {&x, &weight, &bias}) refuse_tangent("linear_product", *t);
  return LinearProduct::apply(as_in_product(x), weight, bias.defined() ? std::optional(bias) : std::nullopt, rows);
}

}  // namespace adjoin::nn
