#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::linalg {

/// out = left right, for the last two dims and for each index of the leading dims, without autograd. `out` may be
/// strided.
/// Cost: no tensor memory besides `out`; for an operand without a unit stride, such as an expanded one, a copy with as
/// many elements as a matrix of `out` (left), or of one of its matrices (right)
void multiply_into(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right);

/// How many indices a round takes where no chunk is given and each index takes `bytes` of received data: as many as 32
/// MiB hold, but at least 64, as with narrower blocks the other operand would be read too often.
int64_t automatic_chunk(int64_t bytes);

/// An uninitialised tensor with the sizes of `x` except the last two; without autograd.
at::Tensor empty_matrices(const at::Tensor& x, int64_t rows, int64_t columns);

/// Messages of views of tensors, posted together; no message is sent for a view without elements.
class Boxes {
 public:
  void send(const at::Tensor& view, int peer) { add(Message::Kind::send, view, peer); }
  void receive(const at::Tensor& view, int peer) { add(Message::Kind::receive, view, peer); }
  /// Posts all messages and waits for them.
  void operator()(const Communicator& group) const;

 private:
  void add(Message::Kind kind, const at::Tensor& view, int peer);

  std::vector<at::Tensor> views_;  // the messages point to their sizes and strides
  std::vector<Message> messages_;
};

}  // namespace adjoin::linalg
