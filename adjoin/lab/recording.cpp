#include "adjoin/lab/recording.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/recording_backend.hpp"

namespace adjoin::lab {

namespace {

template <class Value>
int64_t total(const Recording& recording, int from, int to, const Value& value) {
  int64_t total = 0;
  for (const RecordedMessage& message : recording.messages)
    if ((from == Recording::kAny || from == message.from) && (to == Recording::kAny || to == message.to))
      total += value(message);
  return total;
}

}  // namespace

int64_t Recording::sent(int from, int to) const {
  return total(*this, from, to, [](const RecordedMessage&) { return 1; });
}

int64_t Recording::bytes(int from, int to) const {
  return total(*this, from, to, [](const RecordedMessage& message) { return message.bytes; });
}

int64_t Recording::steps() const {
  return messages.empty() ? 0 : messages.back().step;
}

std::string describe(const Recording& recording) {
  std::string text;
  for (const RecordedMessage& message : recording.messages)
    text += "step " + std::to_string(message.step) + ": " + std::to_string(message.from) + " -> " +
            std::to_string(message.to) + " (" + std::to_string(message.bytes) + " bytes)\n";
  return text;
}

Recorder::Recorder(int ranks) : log_(std::make_shared<Log>(ranks)) {}
Recorder::~Recorder() = default;

Communicator Recorder::watch(const Communicator& world) const {
  require(world.size() == log_->ranks(), [&] {
    return "Recorder::watch: expected a world of " + std::to_string(log_->ranks()) + " ranks, got one of " +
           std::to_string(world.size());
  });
  return world.carried_by(
      std::make_shared<RecordingBackend>(world.backend(), log_, GroupIdentity{.world_ranks = all_ranks(world.size())}));
}

Recording Recorder::recording() const {
  return log_->recording();
}

Recording record(int ranks, const std::function<void(const Communicator& world)>& fn, const LaunchOptions& options) {
  require(ranks >= 1, "record: expected at least 1 rank, got " + std::to_string(ranks));
  const Recorder recorder(ranks);
  launch_threads(
      ranks, [&](const Communicator& world) { fn(recorder.watch(world)); }, options);
  return recorder.recording();
}

}  // namespace adjoin::lab
