#include "adjoin/nn/gathered_linear.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/blocks.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// The ranks whose x are one, and how its rows lie on them.
struct RowsCapsule : torch::CustomClassHolder {
  RowsCapsule(Communicator g, Split s) : group(std::move(g)), split(std::move(s)) {}
  Communicator group;
  Split split;

  at::Tensor all(const at::Tensor& x) const {
    BlockStaging staging;
    return join_blocks(x, group, split, staging);
  }
};

struct GatheredLinear : torch::autograd::Function<GatheredLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const c10::intrusive_ptr<RowsCapsule>& rows) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["rows"] = c10::IValue::make_capsule(rows);
    ctx->saved_data["has_bias"] = bias.has_value();
    const at::Tensor y = at::linear(rows->all(x), weight.to(x.scalar_type()));
    return bias ? y.add_(*bias) : y;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "gathered_linear: is differentiable once, but backward was to create a graph");
    const auto rows = c10::static_intrusive_pointer_cast<RowsCapsule>(ctx->saved_data["rows"].toCapsule());
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &of_y = gradients[0];
    BlockStaging staging;
    const at::Tensor of_x = sum_blocks(of_y.mm(weight.to(x.scalar_type())), rows->group, rows->split, staging);
    const at::Tensor of_weight = of_y.t().mm(rows->all(x)).to(weight.scalar_type());
    const bool has_bias = ctx->saved_data["has_bias"].toBool();
    const at::Tensor of_bias = has_bias ? of_y.sum(0).to(weight.scalar_type()) : at::Tensor();
    return {of_x, of_weight, of_bias, at::Tensor()};
  }
};

}  // namespace

at::Tensor as_in_product(const at::Tensor& x) {
  return at::autocast::is_autocast_enabled(at::kCPU)
             ? at::autocast::cached_cast(at::autocast::get_autocast_dtype(at::kCPU), x, at::kCPU)
             : x;
}

at::Tensor gathered_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const Communicator& group, const Split& rows) {
  require(x.dim() == 2 && rows.parts() == group.size() && x.size(0) == rows.size(group.rank()), [&] {
    return "gathered_linear: rank " + std::to_string(group.rank()) + ": expected its rows of those that lie as " +
           rows.to_string() + ", got " + std::to_string(x.size(0));
  });
  return GatheredLinear::apply(as_in_product(x), weight, bias.defined() ? std::optional(bias) : std::nullopt,
                               c10::make_intrusive<RowsCapsule>(group, rows));
}

}  // namespace adjoin::nn
