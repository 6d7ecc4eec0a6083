#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// Sends `x` to each rank of `to` and returns the tensors that the ranks of `from` sent here, in that order.
///
/// Receivers need not know shapes: a header with dtype and shape goes first. All messages of a stage are posted
/// together, so no order of ranks can block; a rank may send to itself.
/// Cost:   two messages a tensor
/// Throws: InvalidArgument for a tensor of more than 12 dims
std::vector<at::Tensor> exchange_tensors(const at::Tensor& x, const std::vector<int>& to, const std::vector<int>& from,
                                         const Communicator& group);

}  // namespace adjoin
