#pragma once

#include <memory>

#include "adjoin/comm/contract/forwarding_backend.hpp"
#include "adjoin/lab/log.hpp"

namespace adjoin::lab {

/// A backend that forwards to another one and writes its exchanges to a log. Collectives are those of the other
/// backend, which may send them in any way: the log records only that they were called.
class RecordingBackend final : public ForwardingBackend {
 public:
  RecordingBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Log> log, RecordedGroup group);

  void exchange(std::span<const Message> messages, const Call& call) override;
  std::unique_ptr<PendingSend> begin_send(const Message& message, const Call& call) override;
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override;
  void run_collective(const Call& call) override;
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override;

 private:
  int world_rank() const { return group_.members[static_cast<size_t>(rank())]; }

  const std::shared_ptr<Log> log_;
  const RecordedGroup group_;
};

}  // namespace adjoin::lab
