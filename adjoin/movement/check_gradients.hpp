#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin {

struct DistributedTensor;

/// A tensor of which it is known what it is along the axes of a grid.
struct KnownTensor {
  std::string name;
  at::Tensor tensor;
  /// A layout, whose ranks are those of `world`; or the kind along each axis, which may be anything along one that is not named.
  std::variant<Layout, std::map<std::string, Kind>> kinds;
  Communicator world = {};
};

/// Called between forward and backward: looks through the graph that autograd has built for what would give a parameter
/// another gradient than one worker's, and names it.
///
/// Along each axis of the grid of more than one worker a value is replicated, copied, or another on each worker. Parameters
/// and inputs say what they are, movements change it, and all other operations obey one rule: replicated goes with replicated
/// alone, copied with copied stays so, and what differs makes its result differ. What the graph does not know may be anything:
/// tensors without gradient that are not among the inputs, groups that are no axes of the grid.
///
/// `inputs` may be any tensors of which the caller knows what they are. One that the graph computes, as the output of a layer, is
/// to be found so too: then a sum or a gather that is missing before it is named, though what differs would fit as well.
///
/// `loss` is that of this worker: the same on all along an axis, replicated, or its summand, split; which of them, `loss_kinds`
/// may say, so that a loss to which a sum is missing is named too. What `ForwardNotes` have noted on this
/// thread is looked into too: segments that are computed again in backward, movements of tensors without gradient, and the layouts of
/// what the layers of nn/distributed compute.
/// Throws: InvalidArgument that names the axis, the operation, the parameter or the movement with its place, and what to write
/// Cost:   about 5 us an operation; sends nothing, so each worker judges its own graph alone
/// Source: the types of JAX's shard_map (varying and invariant values) and of meta-pytorch/spmd_types, which check programs
///         before they run
void check_gradients(const at::Tensor& loss, const std::vector<KnownTensor>& parameters,
                     const std::vector<KnownTensor>& inputs, const Grid& grid,
                     const std::map<std::string, Kind>& loss_kinds = {});

/// The same of what is no loss, as the output of a stage: its own kind is not judged.
void check_gradients_of_stage(const at::Tensor& output, const std::vector<KnownTensor>& parameters,
                              const std::vector<KnownTensor>& inputs, const Grid& grid);

/// A distributed tensor as check_gradients knows it.
KnownTensor known_tensor(std::string name, const DistributedTensor& x);

}  // namespace adjoin
