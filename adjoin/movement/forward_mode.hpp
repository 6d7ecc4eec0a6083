#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/_make_dual.h>
#include <c10/core/AutogradState.h>

#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin {

/// The derivative that x carries in LibTorch's forward mode; undefined where it carries none.
inline at::Tensor tangent_of(const at::Tensor& x) {
  return c10::AutogradState::get_tls_state().get_fw_grad_mode() ? x._fw_grad(0) : at::Tensor();
}

/// x without its derivative in forward mode.
inline at::Tensor primal_of(const at::Tensor& x) {
  return tangent_of(x).defined() ? x._fw_primal(0) : x;
}

/// For an operation of our own that does not carry derivatives in forward mode; x may be undefined.
/// Throws: InvalidArgument, which begins with `who`, where x has one
inline void refuse_tangent(const char* who, const at::Tensor& x) {
  require(!tangent_of(x).defined(),
          [&] { return std::string(who) + ": derivatives in forward mode are not supported"; });
}

/// y with this derivative, which may be undefined.
inline at::Tensor with_tangent(const at::Tensor& y, const at::Tensor& tangent) {
  return tangent.defined() ? at::_make_dual(y, tangent, /*level=*/0) : y;
}

}  // namespace adjoin
