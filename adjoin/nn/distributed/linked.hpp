#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::nn {

/// Whether some worker of the grid's world holds no elements of a layout.
bool leaves_some_out(const Layout& layout, const Grid& grid);

/// y, which then depends in autograd's graph on other tensors, by gradients of zero.
///
/// Where some workers hold nothing, all call it. Backward, of any order, then comes through the same movements on each of them:
/// with create_graph all gradients depend on y's gradient and on all tensors, whatever LibTorch's own formulas leave out.
/// Cost: nothing of y's size but in backward with create_graph
at::Tensor linked(const at::Tensor& y, at::TensorList to);

}  // namespace adjoin::nn
