#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::nn {

/// Whether a layout gives some worker of the grid's world no elements.
bool leaves_some_out(const Layout& layout, const Grid& grid);

/// Returns y, which in autograd's graph then also depends on other tensors, with gradients of zero.
///
/// Where some workers hold nothing, or compute y in another way than others, all workers call it. Backward, also of higher order,
/// then runs the same movements on each worker: with create_graph all gradients depend on y's gradient and on all tensors, even
/// where LibTorch's own formulas leave them out. Where one of these tensors has a derivative in forward mode, so has y, of zeros
/// if it had none.
/// Cost: no work of y's size, except in backward with create_graph
at::Tensor linked(const at::Tensor& y, at::TensorList to);

}  // namespace adjoin::nn
