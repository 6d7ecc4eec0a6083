#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::linalg {

/// out = left right, of the last two dims and for each of the leading ones, without autograd. `out` may be strided.
/// Cost: no memory of a tensor beside `out`; of an operand that no dim runs along memory, as an expanded one, a copy of
///       as many elements as a matrix of `out` has (left), or a matrix of it (right)
void multiply_into(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right);

/// How many indices a round takes where no chunk is given, each of which takes `bytes` of what is received: 32 MiB of
/// them, but 64 at least, as of narrower blocks the other operand would be read too often.
int64_t automatic_chunk(int64_t bytes);

/// `x`'s sizes with other last two; uninitialised, without autograd.
at::Tensor empty_matrices(const at::Tensor& x, int64_t rows, int64_t columns);

/// Messages of views of tensors, posted together; a view without elements is none.
class Boxes {
 public:
  void send(const at::Tensor& view, int peer) { add(Message::Kind::send, view, peer); }
  void receive(const at::Tensor& view, int peer) { add(Message::Kind::receive, view, peer); }
  /// Waits for all of them.
  void operator()(const Communicator& group) const;

 private:
  void add(Message::Kind kind, const at::Tensor& view, int peer);

  std::vector<at::Tensor> views_;  // whose sizes and strides the messages point to
  std::vector<Message> messages_;
};

}  // namespace adjoin::linalg
