#include "adjoin/train/predictor.hpp"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/movement/move.hpp"
#include "adjoin/store/npy.hpp"
#include "adjoin/store/safetensors.hpp"
#include "adjoin/task/same_bits.hpp"
#include "adjoin/tensors/samples_of_ranks.hpp"
#include "adjoin/tensors/tensor_task.hpp"
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
      const WithOrder with_order(order_of(configuration));
      const MicroBatch batch = micro_batch_of(*saved.task, data::Part::test, samples,
                                              part_of_batch(*saved.task, std::ssize(samples), trainer.grid()), {},
                                              trainer.tensor(), trainer.grid());
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

/// The rows of all ranks along dp, on each of them.
at::Tensor rows_of_all(const at::Tensor& mine, const Grid& grid) {
  if (grid.axis("replica").size() == 1) return mine;
  const SamplesOfRanks samples(mine.size(0), 0, grid.axis("replica"));
  std::vector<int64_t> shape = mine.sizes().vec();
  shape[0] = samples.all;
  return move(mine.contiguous(), samples.layout(shape, grid.shape()), Layout(grid.shape(), shape), grid);
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

std::vector<int64_t> predict(const TensorPrediction& options) {
  const SavedModel saved = open_model({options.model, options.step});
  auto* task = dynamic_cast<TensorTask*>(saved.task.get());
  require(task != nullptr, [&] { return "--data: the model in " + options.model + " reads texts"; });
  task->take(read_test_tensors(options.data));
  const Configuration configuration = configured(saved, options);
  const int64_t at_once = task->samples_at_once().value_or(options.batch > 0 ? options.batch : configuration.batch);
  std::vector<int64_t> samples(static_cast<size_t>(task->size(data::Part::test)));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  std::vector<at::Tensor> outputs;
  run_workers(configuration, [&](const Communicator& world) {
    const Trainer trainer = load_trainer(saved, configuration, world);
    for (size_t begin = 0; begin < samples.size(); begin += static_cast<size_t>(at_once)) {
      const std::span now =
          std::span(samples).subspan(begin, std::min(static_cast<size_t>(at_once), samples.size() - begin));
      const MicroBatch batch =
          micro_batch_of(*task, data::Part::test, now, part_of_batch(*task, std::ssize(now), trainer.grid()), {},
                         trainer.tensor(), trainer.grid());
      const at::Tensor all = rows_of_all(trainer.output(batch), trainer.grid());
      if (is_first_of_process(world)) outputs.push_back(all.cpu());
    }
  });
  const at::Tensor y = at::cat(outputs);
  if (mpi_job_rank() == 0)
    std::filesystem::path(options.out).extension() == ".npy" ? write_npy(options.out, y)
                                                             : write_safetensors(options.out, {{"y", y}});
  return y.sizes().vec();
}

}  // namespace adjoin::train
