#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/parallel/bundle.hpp"
#include "adjoin/pipeline/schedule.hpp"

namespace adjoin::parallel {

/// Called with each completed action, and how long the rank was busy with it, without the time that it waited for inputs.
using ActionObserver = std::function<void(const pipeline::Action& action, double seconds)>;

/// What a rank of a pipeline computes for its stages. A function of a single tensor may take and return an at::Tensor.
struct PipelineWork {
  /// A stage's output for a micro-batch. `input` is the previous stage's output, empty for the first stage. Its tensors may be
  /// changed in place, as computed tensors of one worker may, and returned as they are: then the next stage gets them too, and a
  /// gradient is the sum of all uses. On another rank two tensors never share memory, even if they did before.
  std::function<Bundle(int stage, int micro_batch, const Bundle& input)> forward;
  /// The loss of the last stage's output, for which gradients are computed; undefined where none are.
  std::function<at::Tensor(int micro_batch, const Bundle& output)> loss;
  /// The sizes of a stage's output, or the names, sizes and types of all its tensors, for both ranks where it goes to another one;
  /// `output` is the type where none is given. Without this function they travel ahead of the tensors.
  std::function<BundleSpec(int stage, int micro_batch)> output_shape = {};
  at::TensorOptions output = at::kFloat;
  double loss_scale = 1;  ///< the gradient that backward of each loss starts with
  ActionObserver observer = {};
  /// Where given, micro-batches with even and with odd numbers are two parts that take turns at calls of this group
  /// (comm/turns.hpp): for a schedule of one stage. Gradients and losses have the bits of one part after the other.
  std::optional<Communicator> turns = {};
};

/// Runs this rank's actions of a schedule in their order; called by all `ranks` of the pipeline. Gradients are added up in
/// `.grad`. A schedule with forward passes only (pipeline::forward_only) runs without gradients.
///
/// A rank continues after a send, and waits only for an input that it does not have yet. The tensors of an output are sent and
/// received together. W computes the gradients that were postponed when I ran (movement/postponed.hpp); I computed the others.
/// Throws: InvalidArgument where the schedule has another number of ranks, or an output for another rank is not what output_shape
///         says
/// Cost:   one message per micro-batch and tensor, and one for its gradient, between stages on different ranks, and two small ones
///         per micro-batch without output_shape; in memory the activations in flight, and messages that were not yet received
void run_pipeline(const pipeline::Schedule& schedule, const Communicator& ranks, const PipelineWork& work,
                  CallSite::Where where = CallSite::Where::current());

}  // namespace adjoin::parallel
