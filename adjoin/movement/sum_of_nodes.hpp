#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/sum_tree.hpp"

namespace adjoin {

/// This rank's block of the sum over all parts of a tree, of which each rank of a group holds some: the sum has the same bits
/// whichever rank holds which.
///
/// `nodes` are this rank's, SumTree::nodes_of of each of its ranges in turn: flat contiguous tensors of one type (`options`), in
/// which the ranks' blocks of `sizes` elements follow one another. At 16 bits each sum of two nodes is rounded.
/// Cost: each rank sends every other rank its block of each node: of a balanced tree and as many ranks, as a reduce-scatter
at::Tensor reduce_scatter_nodes(const std::vector<at::Tensor>& nodes, SumTree tree,
                                const std::vector<std::vector<Range>>& held, std::span<const int64_t> sizes,
                                const Communicator& group, const at::TensorOptions& options);

/// The whole sum, of a shape, on all ranks.
/// Cost: as reduce_scatter_nodes, and an all-gather
at::Tensor all_reduce_nodes(const std::vector<at::Tensor>& nodes, SumTree tree,
                            const std::vector<std::vector<Range>>& held, const Communicator& group,
                            const std::vector<int64_t>& shape, const at::TensorOptions& options);

}  // namespace adjoin
