#include "adjoin/train/run.hpp"

#include <ATen/ops/softmax.h>

#include <chrono>
#include <iostream>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/checkpoint.hpp"
#include "adjoin/train/interrupt.hpp"
#include "adjoin/train/saved_model.hpp"
#include "adjoin/train/training_run.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

/// A worker's model with the weights of a training run, in the layout of `configuration`.
Trainer load_trainer(const SavedModel& saved, const Configuration& configuration, const Communicator& world) {
  Trainer trainer(configuration, world, saved.tokenizer.size(), saved.tokenizer.padding_id());
  load_weights(saved, world, *trainer.model());
  return trainer;
}

}  // namespace

void train(const Configuration& configuration) {
  validate(configuration);
  check_workers(worker_options(configuration));
  OutputFolder::check(configuration.out);
  check_earlier_run(configuration);
  const TrainingInput input = read_training_input(configuration);
  std::optional<Summary> summary;
  const InterruptGuard guard(mpi_job_rank() == 0);
  run_workers(worker_options(configuration), [&](const Communicator& world) {
    TrainingRun run(configuration, input, world);
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
  configuration.dp = options.dp;
  configuration.tp = options.tp;
  configuration.backend = options.backend;
  configuration.threads_per_rank = options.threads_per_rank;
  validate(configuration);
  check_workers(worker_options(configuration));
  const data::Reviews reviews = read_reviews(options.data, data::Part::test, options.samples);
  warn_of_dropped_bytes(options.data, reviews.dropped_bytes);
  const Dataset dataset = tokenize(reviews.samples, saved.tokenizer, configuration.sequence);
  EvaluationResult result{.samples = dataset.size()};
  run_workers(worker_options(configuration), [&](const Communicator& world) {
    Trainer trainer = load_trainer(saved, configuration, world);
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    const Evaluation evaluation = trainer.evaluate(dataset, options.batch);
    if (!speaks_for_process(world)) return;
    result.loss = evaluation.loss;
    result.accuracy = evaluation.accuracy;
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  return result;
}

std::vector<Prediction> predict(const std::string& model, const std::vector<std::string>& texts) {
  const SavedModel saved = open_model(model);
  Configuration configuration = saved.configuration;
  configuration.dp = configuration.tp = 1;
  Trainer trainer = load_trainer(saved, configuration, Communicator());
  std::vector<Prediction> predictions;
  for (const std::string& text : texts) {
    const std::vector<data::Review> review{{text, 0}};
    const Dataset dataset = tokenize(review, saved.tokenizer, configuration.sequence);
    const std::vector<int64_t> all{0};
    const Batch batch = make_batch(dataset, all, 0, 1, saved.tokenizer.padding_id());
    const double positive = at::softmax(trainer.scores(batch), -1)[0][1].item<double>();
    predictions.push_back({positive >= 0.5, std::max(positive, 1 - positive)});
  }
  return predictions;
}

}  // namespace adjoin::train
