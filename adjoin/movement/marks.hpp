#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>

#include "adjoin/base/not_copied.hpp"

namespace adjoin {

/// Learns of each operation of LibTorch that reads or writes one of its marked tensors, before it is carried out: in forward and in
/// backward, in layers of LibTorch and in code of users. What an operation reads is needed in memory until it has read it.
class MarkedTensors {
 public:
  virtual ~MarkedTensors() = default;
  /// `place` is the number that the tensor was marked with. Called on any thread on which operations run.
  virtual void begin_read(size_t place) { static_cast<void>(place); }
  virtual void end_read(size_t place) noexcept { static_cast<void>(place); }
  /// Called for an operation that would write: it may refuse by an exception.
  virtual void write(size_t place, const std::string& operation) = 0;
  /// Called for at::embedding of a marked tensor or a view of it, `table`: returns its result, differentiable by what the owner does,
  /// or an undefined tensor, after which LibTorch reads the table as usual. Not called for sparse or scaled gradients.
  virtual at::Tensor look_up(size_t place, const at::Tensor& table, const at::Tensor& ids, int64_t padding_idx);
};

/// The result of at::embedding that the owner of a marked table gives; undefined for other tables, and for those that it lets be
/// read as usual.
at::Tensor looked_up(const at::Tensor& table, const at::Tensor& ids, int64_t padding_idx = -1);

/// Marks a tensor for as long as this lives: `owner` learns of operations on it and on its views, which need no mark of their own.
/// Tensors in one memory have one place. What reads the memory through a pointer is not seen.
///
/// The mark is a dispatch key of LibTorch above those of autograd and autocast, so backward, which keeps the tensor or its views, is
/// seen too. Gradients and results do not have it.
/// Cost: 1.7 us for an operation that reads a marked tensor, 0.5 us for a view
class Mark : NotCopied {
 public:
  Mark(at::Tensor tensor, MarkedTensors& owner, size_t place);
  ~Mark();

 private:
  at::Tensor tensor_;
  c10::Storage memory_;  // which the tensor has while it is marked
};

/// While it lives, nobody learns of this thread's operations.
class Unseen : NotCopied {
 public:
  Unseen();

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace adjoin
