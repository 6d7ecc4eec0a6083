#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string_view>

#include "adjoin/base/buffer.hpp"
#include "adjoin/base/reduction.hpp"

namespace adjoin::c10d_backend {

/// How the elements of a tensor are seen as elements of a buffer.
struct Unit {
  ElementType type;
  int64_t per_element = 1;           // how many of `type` one element of the tensor is
  std::string_view moved_type = {};  // the tensor's type, where it is another: Call::moved_type
};
Unit unit_of(at::ScalarType type);

/// The memory of a contiguous tensor.
Buffer buffer_of(const at::Tensor& contiguous);

/// Lets the peers reach a tensor's memory where it is a tensor's alone; of a part of a larger one another thread may write the rest.
void share(const at::Tensor& tensor);

/// The reduction for tensors of this type.
/// Throws: ValueError where there is none
Reduction reduction_of(const c10d::ReduceOp& op, at::ScalarType type);

/// Whether the reduction compares signed bytes, which a buffer has as unsigned ones: their sign is then flipped before and after.
bool flips_sign(const c10d::ReduceOp& op, at::ScalarType type);

/// A tensor as an operand of a collective: itself where its elements are contiguous, else a copy.
class Operand {
 public:
  /// What is read, or read and written.
  static Operand in(const at::Tensor& given, bool flips = false);
  /// What is only written.
  static Operand out(const at::Tensor& given, bool flips = false);

  Buffer buffer() const { return buffer_of(flat_); }
  const at::Tensor& flat() const { return flat_; }
  /// Copies the result to the tensor, if it is not there.
  void give_back() const;

 private:
  Operand(const at::Tensor& given, at::Tensor flat, bool flips) : given_(given), flat_(std::move(flat)), flips_(flips) {
    share(flat_);
  }

  at::Tensor given_, flat_;
  bool flips_;
};

}  // namespace adjoin::c10d_backend
