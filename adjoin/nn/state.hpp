#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

/// Parameters, buffers or an optimizer's moments as global tensors, by their names.
using State = std::map<std::string, at::Tensor>;

/// The global tensor of which the workers of a layout hold pieces, on one rank of the world.
/// Shape:  layout.shape_on(rank), where a copy lies that is not the first any tensor -> the layout's on `rank`, [0] elsewhere
/// Kinds:  split, replicated, copied -> on one worker
/// Cost:   each worker sends its piece once, one message a box; no gradient
at::Tensor gather_tensor(const at::Tensor& piece, const Layout& layout, const Grid& grid, int rank);

/// Gives the workers of a layout their pieces of a tensor that one rank of the world holds.
/// Shape:  the layout's on `rank`, any elsewhere -> layout.shape_on(rank)
/// Kinds:  on one worker -> split, replicated, copied
/// Cost:   as gather_tensor
at::Tensor scatter_tensor(const at::Tensor& whole, const Layout& layout, const Grid& grid, int rank);

/// What parameters and buffers hold, nn::parameters_of(module), as global tensors on one rank; nothing elsewhere.
///
/// Called by all workers of the world. A checkpoint is this, tensor by tensor (train/storage/checkpoint.hpp).
State gather_state(const std::vector<Parameter>& parameters, int rank = 0);

/// Fills parameters and buffers, on whatever layouts, with what one rank holds, in their own types: what gather_state gave,
/// of a module in other layouts, or of one of torch::nn. Called by all workers of the world; `state` counts on `rank` alone.
/// Throws: InvalidArgument on all of them where a tensor lacks, is none of the parameters, or has another shape
void scatter_state(const State& state, const std::vector<Parameter>& parameters, int rank = 0);

}  // namespace adjoin::nn
