#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/comm/contract/backend.hpp"

namespace adjoin::lab {

/// One rank of a group whose other ranks do not exist: calls end at once, and what they would have received is zeros; in an
/// all-to-all or all-gather, what this rank gives itself. So an
/// observer or the memory use shows what one rank does, for any number of ranks, without starting them. Collectives accept
/// tensors without memory.
class SilentBackend final : public Backend {
 public:
  SilentBackend(int rank, int size) : SilentBackend(rank, std::vector<int>(static_cast<size_t>(size))) {}
  /// `hosts`: the number of each rank's host.
  SilentBackend(int rank, std::vector<int> hosts) : rank_(rank), hosts_(std::move(hosts)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hosts_.size()); }
  bool spans_hosts() const override;
  bool overlaps() const override;
  void exchange(std::span<const Message> messages, const Call& call) override;
  void run_collective(const Call& call) override;
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override;
  void abort(std::string_view) noexcept override {}

 private:
  void give_own_block(const Call& call);

  int rank_;
  std::vector<int> hosts_;
};

}  // namespace adjoin::lab
