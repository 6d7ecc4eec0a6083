#include "adjoin/train/predictor.hpp"

#include <exception>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/train/saved_model.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

using Json = nlohmann::ordered_json;

/// How many of the texts the task accepts, and why it refuses the next one.
size_t taken(Task& task, std::span<const std::string> texts, std::string& refusal) {
  try {
    task.take_texts(texts);
    return texts.size();
  } catch (const InvalidArgument& error) {
    refusal = error.what();
  }
  if (texts.size() == 1) return 0;
  size_t good = 0;
  while (good < texts.size() && taken(task, texts.subspan(good, 1), refusal) == 1) ++good;
  if (good > 0) task.take_texts(texts.first(good));
  return good;
}

/// The predictions of all ranks, in rank order.
std::vector<Prediction> gathered(const std::vector<Prediction>& mine, const Communicator& world) {
  if (world.size() == 1) return mine;
  Json rows = Json::array();
  for (const Prediction& p : mine) rows.push_back(Json::array({p.label, p.what, p.value, p.classes}));
  std::vector<Prediction> predictions;
  for (const std::string& of_rank : texts_of_all(rows.dump(), world))
    for (const Json& row : Json::parse(of_rank))
      predictions.push_back({row[0], row[1], row[2], row[3].get<decltype(Prediction::classes)>(), {}});
  return predictions;
}

/// One rank's part of predict(). Errors on rank 0 outside of the workers' common work go to `trouble`, for the caller to throw.
void converse(const SavedModel& saved, const Configuration& configuration, const Conversation& conversation,
              const Communicator& world, std::exception_ptr& trouble) {
  const Trainer trainer = load_trainer(saved, configuration, world);
  const bool is_root = world.rank() == 0;
  for (size_t answered = 0;;) {
    std::string refusal;
    const std::vector<std::string> texts = texts_of_root(world, [&]() -> std::vector<std::string> {
      try {
        std::vector<std::string> read = conversation.next();
        if (!read.empty()) read.resize(taken(*saved.task, read, refusal));
        return read;
      } catch (...) {
        trouble = std::current_exception();
        return {};
      }
    });
    if (!is_root && started_by_mpi() && !texts.empty()) saved.task->take_texts(texts);
    if (!texts.empty()) {
      std::vector<int64_t> samples(texts.size());
      std::iota(samples.begin(), samples.end(), int64_t{0});
      const MicroBatch batch =
          micro_batch_of(*saved.task, data::Part::test, samples, {}, trainer.tensor(), trainer.grid());
      auto predictions = saved.task->predictions(trainer.output(batch), batch, trainer.grid());
      if (trainer.grid().coordinate("tp") != 0) predictions.clear();
      predictions = gathered(predictions, world);
      for (size_t i = 0; is_root && i < predictions.size(); ++i)
        predictions[i].cut = saved.task->cut_of(static_cast<int64_t>(i));
      try {
        if (is_root) conversation.answer(predictions);
      } catch (...) {
        trouble = std::current_exception();
      }
    }
    answered += texts.size();
    if (is_root && !refusal.empty())
      trouble = std::make_exception_ptr(InvalidArgument("text " + std::to_string(answered + 1) + ": " + refusal));
    if (largest_of_all(texts.empty() || trouble != nullptr, world) != 0) return;
  }
}

}  // namespace

void predict(const ModelUse& options, const Conversation& conversation, const TaskMaker& make) {
  const SavedModel saved = open_model({options.model, options.step}, make);
  const Configuration configuration = configured(saved, options);
  std::exception_ptr trouble;
  run_workers(configuration, [&](const Communicator& world) {
    std::exception_ptr of_others;
    converse(saved, configuration, conversation, world, world.rank() == 0 ? trouble : of_others);
  });
  if (trouble) std::rethrow_exception(trouble);
}

}  // namespace adjoin::train
