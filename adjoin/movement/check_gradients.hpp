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

/// A tensor whose kind along each axis of a grid is known.
struct KnownTensor {
  std::string name;
  at::Tensor tensor;
  /// A layout, whose ranks are those of `world`; or the kind along each axis by name, where an axis without an entry may have
  /// any kind.
  std::variant<Layout, std::map<std::string, Kind>> kinds;
  Communicator world = {};
};

/// Called between forward and backward: searches the graph that autograd has built for anything that would give a parameter a
/// gradient other than one worker would compute, and reports it by name.
///
/// Along each axis of the grid with more than one worker, a value is replicated, copied, or different on each worker. The
/// caller states the kinds of parameters and inputs, movements change kinds, and all other operations obey one rule: a
/// replicated value combines with replicated values only, copied values combine to a copied one, and a value that differs makes
/// the result differ. What the graph does not show may be of any kind: tensors without gradient that are not among the inputs,
/// groups that are not axes of the grid.
///
/// `inputs` may be any tensors whose kinds the caller knows. Where the graph computes such a tensor, as the output of a layer,
/// its computed kinds must agree: so a sum or a gather that is missing before it is reported even where a differing value would
/// be accepted.
///
/// `loss` is that of this worker. Along each axis it is either the same on all workers (replicated) or this worker's summand
/// (split); `loss_kinds` may say which, so that a missing sum of the loss is reported too. What a `ForwardRecord` has recorded on
/// this thread is also checked: segments that are computed again in backward, movements of tensors without gradient, and the
/// layouts of what the layers of nn/distributed compute.
/// Throws: InvalidArgument that names the axis, the operation, the parameter or the movement with its place, and says what to
///         write
/// Cost:   about 5 us per operation; sends nothing, so each worker judges its own graph alone
/// Source: the types of JAX's shard_map (varying and invariant values) and of meta-pytorch/spmd_types, which check programs
///         before they run
void check_gradients(const at::Tensor& loss, const std::vector<KnownTensor>& parameters,
                     const std::vector<KnownTensor>& inputs, const Grid& grid,
                     const std::map<std::string, Kind>& loss_kinds = {});

/// The same for a tensor that is not a loss, such as the output of a stage: its own kind is not judged.
void check_gradients_of_stage(const at::Tensor& output, const std::vector<KnownTensor>& parameters,
                              const std::vector<KnownTensor>& inputs, const Grid& grid);

/// A distributed tensor in the form that check_gradients takes.
KnownTensor known_tensor(std::string name, const DistributedTensor& x);

}  // namespace adjoin
