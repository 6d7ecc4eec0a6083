#include "adjoin/train/commands.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/train/flight_records.hpp"
#include "adjoin/train/grid_sizes.hpp"
#include "adjoin/train/interrupt.hpp"
#include "adjoin/train/messages.hpp"
#include "adjoin/train/planned_samples.hpp"
#include "adjoin/train/progress.hpp"
#include "adjoin/train/schedule.hpp"
#include "adjoin/train/step_plan.hpp"
#include "adjoin/train/storage/saved_model.hpp"
#include "adjoin/train/tasks.hpp"
#include "adjoin/train/text/measured_texts.hpp"
#include "adjoin/train/text/trained_texts.hpp"
#include "adjoin/train/traced_steps.hpp"
#include "adjoin/train/training_run.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

int64_t steps_of(const Configuration& c, const Task& task) {
  return total_steps(
      c, std::ssize(hold_out(task.size(data::Part::train), c.validation, static_cast<uint64_t>(c.seed)).train));
}

void say_plan(const Configuration& c, const Task& task) {
  double parameters = 0;
  for (const nn::Parameter& parameter : parameters_of(described_model(task)))
    parameters += static_cast<double>(parameter.tensor.numel());
  require(parameters < 1e15, "the model would have more than 1,000,000,000,000,000 parameters");
  const HeldOut samples = hold_out(task.size(data::Part::train), c.validation, static_cast<uint64_t>(c.seed));
  const int64_t steps = total_steps(c, std::ssize(samples.train));
  const std::string about = task.description();
  say("model of " + grouped(static_cast<int64_t>(parameters)) + " parameters" + (about.empty() ? "" : ": " + about));
  if (c.validation > 0)
    say(counted(std::ssize(samples.train), "sample") + " to train on, " + grouped(std::ssize(samples.validation)) +
        " held out for validation");
  say(counted(steps, "step") + (c.steps > 0 ? "" : ": " + counted(c.epochs, "epoch")) + " in batches of " +
      grouped(c.batch));
  if (c.max_time > 0) say("ends after " + clock_time(c.max_time) + " at the latest");
  say(counted(grid_sizes(c).ranks(), "rank") + ": " + layout_text(c) +
      (c.backend == "mpi" || (c.backend == "auto" && started_by_mpi()) ? ", MPI processes" : ", threads"));
  if (c.experts > 1)
    say(counted(c.layers / c.moe_every, "block") + " with " + grouped(c.experts) + " experts, " +
        grouped(expert_options(c).top_k) + " for each token");
  for (const std::string& remark : remarks(c)) say(remark);
  if (!c.resume.empty()) say("goes on from " + c.resume);
}

/// The configuration with the values that --resume and --dp 0 stand for, checked as far as it can be without the task.
Configuration completed(Configuration c, const TaskMaker& make) {
  if (make && c.task.empty()) c.task = kOwnTask;
  c.resume = run_to_resume(c.resume, c.out);
  require(c.step == 0 || !c.resume.empty(),
          "--step chooses a checkpoint of the run in --resume, so --resume is needed");
  if (c.out.empty()) c.out = c.resume;
  c = with_all_ranks(std::move(c));
  validate(c);
  check_schedule(c);
  return c;
}

/// The task of a run that may begin; prints what it is. If the run writes, its output folder is checked and not changed.
std::unique_ptr<Task> prepared(Configuration& configuration, const TaskMaker& make, bool writes) {
  if (writes) require(!configuration.out.empty(), "--out is needed");
  if (writes && mpi_job_rank() == 0) {  // other ranks would see the files with which it tries to write
    OutputFolder::check(configuration.out);
    check_earlier_run(configuration);
    OutputFolder::try_out(configuration.out);
  }
  std::unique_ptr<Task> task = make_task(configuration, make);
  check_traced_steps(configuration, 0, steps_of(configuration, *task));
  if (!configuration.resume.empty()) check_weights_to_resume({configuration.resume, configuration.step}, *task);
  const std::vector<models::Segment> segments = task->segments();
  const Stages stages = stages_of(configuration, segments);
  say_plan(configuration, *task);
  if (stages.count() > 1 || configuration.pipeline != Configuration().pipeline)
    say("pipeline " + configuration.pipeline + ": " + counted(stages.count(), "stage") + ", " +
        counted(configuration.microbatches, "micro-batch", "micro-batches") + ", ranks idle about " +
        fixed(100 * expected_timeline(stages, segments).bubble, 0) + " % of the time");
  const int64_t samples = (configuration.batch + configuration.dp - 1) / configuration.dp;
  if (stages.count() > 1 && samples < configuration.microbatches)
    say("micro-batches without samples: at least " + grouped(configuration.microbatches - samples) +
        " of each rank's " + grouped(configuration.microbatches) + ", during which it is idle too");
  return task;
}

/// The model with which a training begins, printed; none where its weights are drawn or come from a checkpoint.
std::optional<SavedModel> beginning_of(const Configuration& configuration, const Task& task, const TaskMaker& make) {
  if (configuration.from.empty() || !configuration.resume.empty()) return std::nullopt;
  SavedModel beginning = open_beginning(configuration, make);
  say("begins with the weights of " + configuration.from);
  std::set<std::string> drawn;
  for (const std::string& name : drawn_anew(beginning, task, parameters_of(described_model(task))))
    drawn.insert(name.substr(0, name.rfind('.')));
  if (!drawn.empty()) say("draws by the seed what is missing or for other classes: " + joined(drawn));
  if (beginning.weights && !beginning.weights->left_out.empty())
    say("leaves out the weights of other heads: " + joined(beginning.weights->left_out));
  return beginning;
}

/// mpirun ends a job before its ranks can print more, so the way to go on is printed at once.
std::string answer_to_interrupt(const Configuration& c) {
  return "adjoin: interrupted: finishing and saving this step; interrupt again to end now\n" +
         (started_by_mpi() ? "adjoin: once it is saved, continue with: " + way_to_resume(c.out, c.task) + "\n" : "");
}

}  // namespace

void train(const Configuration& given, const TaskMaker& make) {
  Configuration configuration = completed(given, make);
  check_workers(worker_options(configuration));
  const std::unique_ptr<Task> task = prepared(configuration, make, /*writes=*/true);
  const std::optional<SavedModel> beginning = beginning_of(configuration, *task, make);
  say("writes to " + configuration.out);
  std::optional<Summary> summary;
  const InterruptGuard guard(mpi_job_rank() == 0 ? answer_to_interrupt(configuration) : "");
  FlightRecords records(configuration.out);
  run_recorded(worker_options(configuration), records, [&](const Communicator& world) {
    TrainingRun run(configuration, *task, world, beginning ? &*beginning : nullptr);
    records.keep(world);
    auto finished = run.run();
    if (is_first_of_process(world)) summary = std::move(finished);
    if (world.rank() == 0 && summary) print_table(std::cout, *summary);
  });
  if (!summary)
    throw Interrupted("interrupted; continue with: " + way_to_resume(configuration.out, configuration.task),
                      interrupting_signal());
}

void dry_run(const Configuration& given, const TaskMaker& make, bool as_json) {
  std::optional<Silence> silence;
  if (as_json) silence.emplace();
  Configuration configuration = completed(given, make);
  require(grid_sizes(configuration).ranks() <= kMostThreads, [&] {
    return grid_sizes(configuration).needs() + ", a dry run plans at most " + std::to_string(kMostThreads);
  });
  const std::unique_ptr<Task> task = prepared(configuration, make, /*writes=*/false);
  beginning_of(configuration, *task, make);
  if (mpi_job_rank() != 0) return;
  const std::vector<int64_t> samples = longest_samples(configuration, *task);
  const std::vector<RankPlan> ranks = plan_step(configuration, *task, samples);
  int64_t rows = 0;
  for (const RankPlan& rank : ranks) rows = std::max(rows, rank.rows);
  say("a rank goes through at most " + grouped(rows) + " tokens at once");
  const std::vector<models::Segment> segments = task->segments();
  if (configuration.pp > 1 && !as_json) print_stages(std::cout, stages_of(configuration, segments), segments);
  int64_t of_full_experts = 0;
  if (configuration.ep > 1)
    for (const RankPlan& rank : plan_step(configuration, *task, samples, nn::AssumedExperts::Rows::here))
      of_full_experts = std::max(of_full_experts, rank.highest);
  if (!as_json) return print_plan(std::cout, ranks, of_full_experts);
  nlohmann::ordered_json json{{"layout", layout_text(configuration)}, {"largest_micro_batch", rows}};
  if (of_full_experts > 0) json["full_experts_bytes"] = of_full_experts;
  json["ranks"] = to_json(ranks);
  std::cout << json.dump() << '\n';
}

EvaluationResult evaluate(const EvaluateOptions& options, const TaskMaker& make) {
  const SavedModel saved = open_model({options.model, options.step}, make);
  const Configuration configuration = configured(saved, options);
  stages_of(configuration, saved.task->segments());  // throws for too many
  check_workers(worker_options(configuration));
  EvaluationResult result{.task = saved.task, .evaluation = {}};
  if (!make) {
    const MeasuredTexts texts = measured_texts(
        options.source, options.test, {saved.configuration, options.model, content_of_file(*saved.task, kTextsFile)});
    saved.task->read_test(texts.source);
    result.texts = texts.name;
  } else if (!options.source.data.empty()) {
    saved.task->read_test(options.source);
  }
  const std::string measured = counted(saved.task->size(data::Part::test), "sample") + " " + result.texts;
  run_workers(worker_options(configuration), [&](const Communicator& world) {
    const std::string of_first = text_of(0, measured, world);
    require(largest_of_all(of_first != measured, world) == 0,
            [&] { return options.model + ": the ranks see different texts, rank 0 " + of_first; });
    Trainer trainer = load_trainer(saved, configuration, world);
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    std::optional<ProgressBar> bar;  // a short evaluation has none
    const auto show = [&](int64_t batch, int64_t batches, int64_t samples) {
      if (!bar) bar.emplace(batches);
      if (batch < batches) bar->update(batch, std::nullopt, samples);
    };
    const Evaluation evaluation = trainer.evaluate(data::Part::test, options.batch,
                                                   world.rank() == 0 ? Trainer::EvaluationProgress(show) : nullptr);
    bar.reset();
    if (!is_first_of_process(world)) return;
    result.evaluation = evaluation;
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  if (!std::isfinite(result.evaluation.loss)) throw Error(options.model + ": the loss of this model is not finite");
  return result;
}

}  // namespace adjoin::train
