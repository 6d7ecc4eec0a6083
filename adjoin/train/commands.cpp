#include "adjoin/train/commands.hpp"

#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/tensors/tensor_task.hpp"
#include "adjoin/texts/measured_texts.hpp"
#include "adjoin/texts/trained_texts.hpp"
#include "adjoin/train/flight_records.hpp"
#include "adjoin/train/interrupt.hpp"
#include "adjoin/train/prepared_run.hpp"
#include "adjoin/train/progress.hpp"
#include "adjoin/train/resume.hpp"
#include "adjoin/train/saved_model.hpp"
#include "adjoin/train/tasks.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/training_run.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

/// mpirun ends a job before its ranks can print more, so the way to go on is printed at once.
std::string answer_to_interrupt(const Configuration& c) {
  return "adjoin: interrupted: finishing and saving this step; interrupt again to end now\n" +
         (started_by_mpi() ? "adjoin: once it is saved, continue with: " + way_to_resume(c.out, c.task) + "\n" : "");
}

}  // namespace

void train(const Configuration& given, const TaskMaker& make) {
  Configuration configuration = completed(given, make);
  check_workers(configuration);
  const std::unique_ptr<Task> task = prepared(configuration, make, /*writes=*/true);
  const std::optional<SavedModel> beginning = beginning_of(configuration, *task, make);
  say("writes to " + configuration.out);
  std::optional<Summary> summary;
  const InterruptGuard guard(mpi_job_rank() == 0 ? answer_to_interrupt(configuration) : "");
  FlightRecords records(configuration.out);
  run_recorded(configuration, records, [&](const Communicator& world) {
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

EvaluationResult evaluate(const EvaluateOptions& options, const TaskMaker& make) {
  const SavedModel saved = open_model({options.model, options.step}, make);
  const Configuration configuration = configured(saved, options);
  stages_of(configuration, segments_of(configuration, *saved.task));  // throws for too many
  check_workers(configuration);
  EvaluationResult result;
  if (saved.configuration.is_of_tensors()) {
    const TextSource source = measured_tensors(options.source, options.test, saved.configuration);
    saved.task->read_test(source);
    result.texts = source.data;
  } else if (!make) {
    const MeasuredTexts texts = measured_texts(
        options.source, options.test, {saved.configuration, options.model, content_of_file(*saved.task, kTextsFile)});
    saved.task->read_test(texts.source);
    result.texts = texts.name;
  } else if (!options.source.data.empty()) {
    saved.task->read_test(options.source);
  }
  result.samples = saved.task->size(data::Part::test);
  const std::string measured = counted(result.samples, "sample") + " " + result.texts;
  run_workers(configuration, [&](const Communicator& world) {
    const std::string of_first = text_from_rank(0, measured, world);
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
  result.report = saved.task->report(result.evaluation.tally, 80);
  result.details = saved.task->details(result.evaluation.tally);
  return result;
}

}  // namespace adjoin::train
