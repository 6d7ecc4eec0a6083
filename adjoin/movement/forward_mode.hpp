#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/_make_dual.h>
#include <c10/core/AutogradState.h>

namespace adjoin {

/// The derivative that x carries in LibTorch's forward mode; undefined where it carries none.
inline at::Tensor tangent_of(const at::Tensor& x) {
  return c10::AutogradState::get_tls_state().get_fw_grad_mode() ? x._fw_grad(0) : at::Tensor();
}

/// y with this derivative, which may be undefined.
inline at::Tensor with_tangent(const at::Tensor& y, const at::Tensor& tangent) {
  return tangent.defined() ? at::_make_dual(y, tangent, /*level=*/0) : y;
}

}  // namespace adjoin
