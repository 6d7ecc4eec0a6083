#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "adjoin/comm/host/meeting.hpp"

namespace adjoin::c10d_backend {

/// Processes that meet by a Store of torch.distributed. Its keys are removed again.
class StoreMeeting final : public host::Meeting {
 public:
  /// The store is for these ranks alone. `who_died` says which of them is known to have died; "" where none is.
  StoreMeeting(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
               std::function<std::string()> who_died)
      : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout), who_died_(std::move(who_died)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  /// Throws: CommunicationError that names a rank which has died, or which does not come within the timeout
  std::vector<std::string> exchange(const std::string& mine) override;
  /// Removes the last keys. Called when all ranks have come back from the last exchange.
  void end();

 private:
  struct Process {
    int64_t pid = 0;
    uint64_t host = 0;
  };
  std::string key(int step, int rank) const;
  void await(int step);
  void check_peers();

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_, size_;
  const std::chrono::milliseconds timeout_;
  const std::function<std::string()> who_died_;
  int step_ = 0;
  std::vector<Process> processes_;  // empty before the first exchange
};

}  // namespace adjoin::c10d_backend
