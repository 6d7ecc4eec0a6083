#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <chrono>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/movement/postponed.hpp"
#include "adjoin/parallel/pipeline.hpp"
#include "adjoin/train/bench/benches.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

using pipeline::StageCosts;

constexpr int64_t kElements = 256;  // elements of a message

void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// A layer that sleeps: in forward, for the gradient of its input, and for the gradient of its weight, which can wait.
class SleepingLayer : public torch::autograd::Function<SleepingLayer> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const StageCosts& costs) {
    sleep(costs.forward);
    context->save_for_backward({weight});
    context->saved_data["input"] = costs.input;
    context->saved_data["weight"] = costs.weight;
    return x + weight;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    sleep(context->saved_data["input"].toDouble());
    const at::Tensor weight = context->get_saved_variables()[0];
    const auto gradient_of_weight = [gradient = gradients[0], seconds = context->saved_data["weight"].toDouble()] {
      sleep(seconds);
      return gradient.clone();
    };
    return {gradients[0], parameter_gradient(weight, gradient_of_weight), {}};
  }
};

}  // namespace

BenchPipelineResult bench_pipeline(const BenchPipelineOptions& options) {
  require(options.times >= 1, "bench pipeline: expected at least one measurement");
  const pipeline::Costs costs = pipeline::equal_costs(options.schedule, options.costs);
  BenchPipelineResult result{.simulated = pipeline::simulate(options.schedule, costs).makespan};
  const WorkerOptions workers{{{.pp = options.schedule.ranks()},
                               /*zero=*/1,
                               Workers::automatic,
                               "cpu",
                               /*threads_per_rank=*/1,
                               options.host_memory}};
  run_workers(workers, [&](const Communicator& world) {
    const at::Tensor weight = at::zeros({kElements}).requires_grad_();
    const auto run = [&](const pipeline::Costs& sleeps) {
      const parallel::PipelineWork work{.forward =
                                            [&](int stage, int, const at::Tensor& input) {
                                              return SleepingLayer::apply(
                                                  input.defined() ? input : at::zeros({kElements}), weight,
                                                  sleeps.stages[static_cast<size_t>(stage)]);
                                            },
                                        .loss = [](int, const at::Tensor& output) { return output.sum(); },
                                        .output_shape = [](int, int) { return std::vector<int64_t>{kElements}; }};
      parallel::run_pipeline(options.schedule, world, work);
    };
    run(pipeline::equal_costs(options.schedule, {0, 0, 0}));  // runs once before, as the first use takes long
    const double seconds = measure::median_seconds(options.times, world, [&] { run(costs); });
    if (is_first_of_process(world)) result.measured = seconds;
  });
  return result;
}

}  // namespace adjoin::train
