#include "adjoin/train/run.hpp"

#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/interrupt.hpp"
#include "adjoin/train/messages.hpp"
#include "adjoin/train/plan.hpp"
#include "adjoin/train/saved_model.hpp"
#include "adjoin/train/tasks.hpp"
#include "adjoin/train/training_run.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

void say_plan(const Configuration& c, const Task& task) {
  const Grid one_worker(Communicator(), Plan().grid());
  int64_t parameters = 0;
  for (const nn::Parameter& parameter :
       nn::parameters_of(*task.model(one_worker, tensor_options(c).device(at::kMeta)).module))
    parameters += parameter.tensor.numel();
  const int64_t steps = (task.size(data::Part::train) + c.batch - 1) / c.batch * c.epochs;
  const std::string about = task.description();
  say("model of " + grouped(parameters) + " parameters" + (about.empty() ? "" : ": " + about));
  say(grouped(steps) + " steps: " + grouped(c.epochs) + (c.epochs == 1 ? " epoch" : " epochs") + " in batches of " +
      grouped(c.batch));
  const Plan plan = plan_of(c);
  say(grouped(plan.ranks()) + (plan.ranks() == 1 ? " rank" : " ranks") + ": " + plan.to_string() +
      (started_by_mpi() ? ", MPI processes" : ", threads"));
  if (!c.resume.empty()) say("goes on from " + c.resume);
  say("writes to " + c.out);
}

}  // namespace

void train(const Configuration& configuration) {
  train(configuration, task_kind(configuration).make);
}

void train(const Configuration& configuration, const TaskMaker& make) {
  validate(configuration);
  check_workers(worker_options(configuration));
  OutputFolder::check(configuration.out);
  check_earlier_run(configuration);
  const std::unique_ptr<Task> task = make(configuration);
  if (!configuration.resume.empty()) check_weights_to_resume(configuration.resume, configuration, *task);
  say_plan(configuration, *task);
  std::optional<Summary> summary;
  const InterruptGuard guard(mpi_job_rank() == 0);
  run_workers(worker_options(configuration), [&](const Communicator& world) {
    TrainingRun run(configuration, *task, world);
    auto finished = run.run();
    if (speaks_for_process(world)) summary = std::move(finished);
    if (world.rank() == 0 && summary) print_table(std::cout, *summary);
  });
  if (!summary)
    throw Interrupted("interrupted; continue with: adjoin train --resume " + configuration.out, interrupting_signal());
}

EvaluationResult evaluate(const EvaluateOptions& options) {
  const SavedModel saved = open_model(options.model);
  Configuration configuration = saved.configuration;
  configuration.dp = options.plan.dp;
  configuration.tp = options.plan.tp;
  configuration.backend = options.backend;
  configuration.threads_per_rank = options.threads_per_rank;
  validate(configuration);
  check_workers(worker_options(configuration));
  saved.task->read_test(options.source);
  EvaluationResult result{.task = saved.task, .evaluation = {}};
  run_workers(worker_options(configuration), [&](const Communicator& world) {
    Trainer trainer = load_trainer(saved, configuration, world);
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    const Evaluation evaluation = trainer.evaluate(data::Part::test, options.batch);
    if (!speaks_for_process(world)) return;
    result.evaluation = evaluation;
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  if (!std::isfinite(result.evaluation.loss)) throw Error(options.model + ": the loss of this model is not finite");
  return result;
}

}  // namespace adjoin::train
