#include "adjoin/nn/distributed/linked.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/intercept.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// A tensor without elements, in its own memory, with the same place in the graph.
at::Tensor handle_of(const at::Tensor& tensor) {
  const at::Tensor none = tensor.dim() == 0 ? tensor.reshape({1}).narrow(0, 0, 0) : tensor.narrow(0, 0, 0).reshape({0});
  return none.clone();
}

at::Tensor linked_to_handles(const at::Tensor& y, const tensor_list& handles);

struct Link : torch::autograd::Function<Link> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& y, at::TensorList handles) {
    ctx->save_for_backward(handles.vec());
    return y.view_as(y);
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const tensor_list handles = ctx->get_saved_variables();
    const at::Tensor& gradient = gradients[0];
    tensor_list of_inputs{linked_to_handles(gradient, handles)};
    tensor_list all = handles;
    if (at::GradMode::is_enabled() && gradient.requires_grad()) all.push_back(handle_of(gradient));
    for (const at::Tensor& handle : handles)
      of_inputs.push_back(linked_to_handles(at::zeros({0}, handle.options().requires_grad(false)), all));
    return of_inputs;
  }
};

/// Reads marked tensors (movement/marks) again when backward comes to y: LibTorch's formulas do so on workers with elements only.
struct ReadAgain : torch::autograd::Function<ReadAgain> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& y, const tensor_list& marked) {
    ctx->saved_data["marked"] = marked;
    return y.view_as(y);
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const at::NoGradGuard no_gradient;
    for (const at::Tensor& tensor : ctx->saved_data["marked"].toTensorVector()) (void)handle_of(tensor);
    return {gradients[0], {}};
  }
};

at::Tensor linked_to_handles(const at::Tensor& y, const tensor_list& handles) {
  if (!at::GradMode::is_enabled() || handles.empty()) return y;
  return Link::apply(y, at::TensorList(handles));
}

}  // namespace

bool leaves_some_out(const Layout& layout, const Grid& grid) {
  return std::ranges::any_of(grid.workers(), [&](int rank) {
    const std::vector<int64_t> shape = layout.shape_on(rank);
    return std::ranges::find(shape, 0) != shape.end();
  });
}

at::Tensor linked(const at::Tensor& y, at::TensorList to) {
  tensor_list primals, all;
  for (const at::Tensor& tensor : to) {
    if (!tensor.defined()) continue;
    primals.push_back(primal_of(tensor));
    if (const at::Tensor of_tensor = tangent_of(tensor); of_tensor.defined()) all.push_back(of_tensor);
  }
  const at::Tensor tangent = tangent_of(y);
  if (tangent.defined() || !all.empty()) {
    const at::Tensor primal = primal_of(y);
    all.insert(all.end(), primals.begin(), primals.end());
    return with_tangent(linked(primal, primals), linked(tangent.defined() ? tangent : at::zeros_like(primal), all));
  }
  if (!at::GradMode::is_enabled()) return y;
  tensor_list handles, marked;
  for (const at::Tensor& tensor : primals) {
    if (tensor.requires_grad()) handles.push_back(handle_of(tensor));
    if (is_intercepted(tensor)) marked.push_back(tensor.detach());
  }
  const at::Tensor made = linked_to_handles(y, handles);
  return marked.empty() || !made.requires_grad() ? made : ReadAgain::apply(made, marked);
}

}  // namespace adjoin::nn
