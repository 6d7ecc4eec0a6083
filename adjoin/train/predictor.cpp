#include "adjoin/train/predictor.hpp"

#include <array>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <numeric>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/train/on_root.hpp"
#include "adjoin/train/storage/saved_model.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

using Json = nlohmann::ordered_json;

/// What takes rank 0 long is who types the texts.
constexpr auto kNever = std::chrono::hours(24 * 365);

/// How many of the texts the task takes, and why not the next one.
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

/// Rank 0's strings, on all ranks.
void share(std::vector<std::string>& strings, const Communicator& world) {
  std::vector<int64_t> sizes(1, std::ssize(strings));
  world.broadcast(buffer(sizes), 0);
  sizes.resize(static_cast<size_t>(sizes[0]));
  for (size_t i = 0; i < strings.size(); ++i) sizes[i] = std::ssize(strings[i]);
  world.broadcast(buffer(sizes), 0);
  strings.resize(sizes.size());
  std::string bytes;
  for (const std::string& string : strings) bytes += string;
  bytes.resize(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})));
  world.broadcast(Buffer{bytes.data(), std::ssize(bytes), ElementType::uint8}, 0);
  size_t begin = 0;
  for (size_t i = 0; i < strings.size(); begin += strings[i++].size())
    strings[i] = bytes.substr(begin, static_cast<size_t>(sizes[i]));
}

/// The predictions of all ranks, in their order, on rank 0.
std::vector<Prediction> gathered(const std::vector<Prediction>& mine, const Communicator& world) {
  if (world.size() == 1) return mine;
  Json rows = Json::array();
  for (const Prediction& p : mine) rows.push_back(Json::array({p.label, p.what, p.value, p.classes}));
  std::string text = rows.dump(), all;
  std::vector<int64_t> size{std::ssize(text)}, sizes(static_cast<size_t>(world.size()));
  world.all_gather(buffer(size), buffer(sizes), std::vector<int64_t>(sizes.size(), 1));
  if (world.rank() == 0) all.resize(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})));
  const auto bytes_of = [](std::string& bytes) { return Buffer{bytes.data(), std::ssize(bytes), ElementType::uint8}; };
  world.gather(bytes_of(text), bytes_of(all), sizes, 0);
  std::vector<Prediction> predictions;
  for (size_t begin = 0, rank = 0; begin < all.size(); begin += static_cast<size_t>(sizes[rank++]))
    for (const Json& row : Json::parse(all.substr(begin, static_cast<size_t>(sizes[rank]))))
      predictions.push_back({row[0], row[1], row[2], row[3].get<decltype(Prediction::classes)>()});
  return predictions;
}

/// One rank's part of it. What goes wrong on rank 0 outside of the workers' common work is for the caller to throw.
void converse(const SavedModel& saved, const Configuration& configuration, const Conversation& conversation,
              const Communicator& world, std::exception_ptr& trouble) {
  const Trainer trainer = load_trainer(saved, configuration, world);
  const bool is_root = world.rank() == 0;
  for (size_t answered = 0;;) {
    std::vector<std::string> texts;
    std::string refusal;
    const auto read = [&] {
      try {
        texts = conversation.next();
        const size_t all = texts.size();
        if (all > 0) texts.resize(taken(*saved.task, texts, refusal));
      } catch (...) {
        trouble = std::current_exception();
        texts.clear();
      }
    };
    world.size() == 1 ? read() : on_root(world, "reading texts", read, kNever);
    share(texts, world);
    if (!is_root && started_by_mpi() && !texts.empty()) saved.task->take_texts(texts);
    if (!texts.empty()) {
      const Communicator& dp = trainer.grid().axis("dp");
      const data::BatchPart mine = data::part_of(std::ssize(texts), dp.rank(), dp.size());
      std::vector<int64_t> samples(texts.size());
      std::iota(samples.begin(), samples.end(), int64_t{0});
      const MicroBatch batch = saved.task->micro_batch(data::Part::test, samples, mine, {});
      auto predictions = saved.task->predictions(trainer.output(batch), batch, trainer.grid());
      if (trainer.grid().coordinate("tp") != 0) predictions.clear();
      predictions = gathered(predictions, world);
      try {
        if (is_root) conversation.answer(predictions);
      } catch (...) {
        trouble = std::current_exception();
      }
    }
    answered += texts.size();
    if (is_root && !refusal.empty())
      trouble = std::make_exception_ptr(InvalidArgument("text " + std::to_string(answered + 1) + ": " + refusal));
    std::array<int32_t, 1> is_over{texts.empty() || trouble != nullptr};
    world.broadcast(buffer(is_over), 0);
    if (is_over[0] != 0) return;
  }
}

}  // namespace

void predict(const PredictOptions& options, const Conversation& conversation, const TaskMaker& make) {
  const SavedModel saved = open_model(options.model, make);
  Configuration configuration = on_grid(saved.configuration, options.grid);
  configuration.backend = options.backend;
  configuration.threads_per_rank = options.threads_per_rank;
  validate(configuration);
  std::exception_ptr trouble;
  run_workers(worker_options(configuration), [&](const Communicator& world) {
    std::exception_ptr of_others;
    converse(saved, configuration, conversation, world, world.rank() == 0 ? trouble : of_others);
  });
  if (trouble) std::rethrow_exception(trouble);
}

}  // namespace adjoin::train
