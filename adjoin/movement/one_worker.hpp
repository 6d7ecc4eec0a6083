#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin {

/// Gathers the ranks' blocks on one rank, as the whole tensor.
///
/// Shape:   [*, N_r, *] with N_r = split.size(rank) -> [*, N, *] on the root, [0] elsewhere
/// Kinds:   split -> on one worker
/// Adjoint: scatter
/// Cost:    every rank except the root sends its block once
/// Throws:  InvalidArgument where the split does not fit x or the group, or there is no such root
at::Tensor gather(const at::Tensor& x, const Communicator& group, const Split& split, int root);

/// Gives each rank its block of a tensor that one rank holds.
///
/// Shape:   [*, N, *] on the root, which is `shape`, any zero-volume tensor elsewhere -> [*, N_r, *]
/// Kinds:   on one worker -> split
/// Adjoint: gather
/// Cost:    the root sends each other rank its block once
/// Throws:  InvalidArgument where the split does not fit the shape or the group, or there is no such root
at::Tensor scatter(const at::Tensor& x, const std::vector<int64_t>& shape, const Communicator& group,
                   const Split& split, int root);

}  // namespace adjoin
