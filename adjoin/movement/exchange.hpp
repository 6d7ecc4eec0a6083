#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/move_plan.hpp"

namespace adjoin {

/// Throws: InvalidArgument where x is not what `rank` holds of a tensor with this layout
void check_piece(const char* operation, const at::Tensor& x, const Layout& layout, int rank);

/// Carries out a plan, without autograd: one message per box, straight from the sender's tensor to the receiver's.
///
/// Where boxes are summed, they are received one summand at a time and added in the order of the cells that they come
/// from, 16-bit floats in float32.
class Exchange {
 public:
  /// `shape` is the shape of the result on this worker. The plan's ranks are those of `world`.
  Exchange(MovePlan plan, std::vector<int64_t> shape, Communicator world);
  /// x is this worker's piece, and may have any strides; so may y, into which the result is written.
  at::Tensor operator()(const at::Tensor& x);
  /// x may be its own place in y, if nothing is summed: then it is not copied.
  void into(const at::Tensor& x, const at::Tensor& y);

 private:
  void place(const at::Tensor& x, const at::Tensor& y);
  void sum(const at::Tensor& x, const at::Tensor& y);
  /// Exchanges the messages of one summand, for all boxes that leave or come to this rank; `receive` returns where a
  /// box goes.
  template <class Receive>
  void exchange(const at::Tensor& x, int summand, const Receive& receive);

  MovePlan plan_;
  std::vector<int64_t> shape_, x_strides_, y_strides_;
  bool begins_with_own_ = false;  // this rank's own piece covers the result, and others add to each element once
  Communicator world_;
  std::vector<Message> messages_;
};

}  // namespace adjoin
