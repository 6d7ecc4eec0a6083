#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "adjoin/comm/call_site.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/pipeline/schedule.hpp"

namespace adjoin::parallel {

/// Is told of an action that is done, and how long the rank was busy with it, which it is not while it waits for an input.
using ActionObserver = std::function<void(const pipeline::Action& action, double seconds)>;

/// What a rank of a pipeline computes as its stages.
struct PipelineWork {
  /// What a stage makes of a micro-batch. `input` is what the stage before made, and undefined for the first stage.
  std::function<at::Tensor(int stage, int micro_batch, const at::Tensor& input)> forward;
  /// The loss of the last stage's output, whose gradients are taken; undefined where none are.
  std::function<at::Tensor(int micro_batch, const at::Tensor& output)> loss;
  /// The shape of a stage's output, for those that receive it, and its type.
  std::function<std::vector<int64_t>(int stage, int micro_batch)> output_shape;
  at::TensorOptions output = at::kFloat;
  double loss_scale = 1;  ///< what the gradient of each loss begins with
  ActionObserver observer = {};
};

/// Runs this rank's actions of a schedule in their order; called by all `ranks` of the pipeline. Gradients add up in `.grad`.
/// A schedule of forward passes alone (pipeline::forward_only) is run without gradients.
///
/// A rank that has sent goes on. It waits only for an input that it lacks. Each message has the size of a stage's output.
/// W computes the gradients that could wait when I ran (movement/postponed.hpp); others were computed with I.
/// Throws: InvalidArgument where the schedule is of another number of ranks
/// Cost:   a message a micro-batch, and one for its gradient, between stages on different ranks; memory: the activations of
///         what is in flight, and messages that were not yet received
void run_pipeline(const pipeline::Schedule& schedule, const Communicator& ranks, const PipelineWork& work,
                  CallSite::Where where = CallSite::Where::current());

}  // namespace adjoin::parallel
