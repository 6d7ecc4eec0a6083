#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "adjoin/base/text.hpp"
#include "adjoin/hugging_face/family.hpp"
#include "adjoin/movement/peak_memory.hpp"
#include "adjoin/plan/step_plan.hpp"
#include "adjoin/train/trainer.hpp"
#include "tests/support/random_task.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::plan {

using namespace train;

using testing::all_samples;
using testing::random_task;

/// A batch of samples that are nearly as long as a sequence.
inline std::unique_ptr<Task> task_of(const Configuration& c) {
  if (c.is_decoder()) return random_task(c, 1, [&](int64_t) { return c.batch * c.sequence; });
  return random_task(c, c.batch, [&](int64_t i) { return c.sequence - i % 3; });
}

/// Keeps the collectives, exchanges and sends of a worker, but for those by which checked mode compares who requires a gradient and
/// what attention was given.
class Calls : public Observer {
 public:
  Calls(std::vector<PlannedCall>& calls, bool checked) : calls_(calls), checked_(checked) {}
  void begin(const Call& call) override {
    const bool compares = checked_ && call.collective == Collective::all_gather &&
                          (call.in.type == ElementType::int32 || call.in.type == ElementType::int64);
    const bool moves = call.collective || call.name == "exchange" || call.name == "isend";
    const auto sent = static_cast<int>(std::ranges::count_if(call.messages, &Message::is_send));
    if (moves && call.size > 1 && !compares)
      calls_.push_back({call.collective, call.size, call.bytes(), 1, call.collective ? 1 : sent});
  }

 private:
  std::vector<PlannedCall>& calls_;
  bool checked_;
};

inline std::vector<PlannedCall> sorted(std::vector<PlannedCall> calls) {
  std::sort(calls.begin(), calls.end(), [](const PlannedCall& a, const PlannedCall& b) {
    return std::tie(a.collective, a.ranks, a.bytes, a.messages) < std::tie(b.collective, b.ranks, b.bytes, b.messages);
  });
  return calls;
}

inline std::string text_of(const std::vector<PlannedCall>& calls) {
  std::string text;
  for (const PlannedCall& call : sorted(calls))
    text += (call.collective ? std::string(name(*call.collective)) : counted(call.messages, "message")) + " of " +
            std::to_string(call.ranks) + ": " + std::to_string(call.bytes) + " bytes\n";
  return text;
}

/// What a worker's second step calls, and the bytes of tensors that it needed.
struct Seen {
  std::vector<PlannedCall> calls;
  int64_t parameters = 0, peak = 0;
};

inline Seen seen_in_a_step(const Configuration& c, const Task& task, const Communicator& world) {
  Seen seen;
  PeakMemory memory;
  Trainer trainer(c, task, world.observed_by(std::make_shared<Calls>(seen.calls, world.checked())));
  trainer.initialize();
  const std::vector<int64_t> samples = all_samples(task);
  trainer.step(samples, 0, 1e-4);
  seen.calls.clear();
  memory.reset_peak();
  trainer.step(samples, 1, 1e-4);
  seen.peak = memory.peak_bytes();
  for (const at::Tensor& weight : trainer.module().parameters()) seen.parameters += weight.numel();
  return seen;
}

/// Large enough for what grows with the model to be nearly all; of a narrow decoder the scores are much of it.
inline Configuration large(const std::string& model, Precision precision) {
  Configuration c = configuration_of(model == "classifier" || model == "bert" ? "small" : "gpt-small");
  if (model == "bert" || model == "llama") {
    const nlohmann::ordered_json config{{"model_type", model}};
    read_model(family_of(config), config, c);
    c.inner = c.words = c.context = 0;
    c.attention_dropout = 0.1;
  }
  c.precision = precision;
  c.layers = model == "narrow decoder" ? 2 : 3;
  c.hidden = model == "narrow decoder" ? 64 : 128;
  c.heads = 4;
  c.sequence = 128;
  c.batch = 16;
  c.vocabulary_size = 500;
  c.token_dropout = 0;
  return c;
}

/// Of one rank of the world; the first thread that asks makes the plan of all.
inline RankPlan planned(const Configuration& c, const Task& task, const Communicator& world) {
  static std::mutex guard;
  static std::map<std::string, std::vector<RankPlan>> known;
  const std::lock_guard lock(guard);
  const auto [found, is_new] = known.try_emplace(to_json(c).dump() + " on " + std::to_string(world.size()));
  if (is_new)
    found->second = plan_step(c, task, all_samples(task), nn::AssumedExperts::Spread::even, testing::hosts_of(world));
  return found->second.at(static_cast<size_t>(world.rank()));
}

}  // namespace adjoin::plan
