#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "adjoin/comm/contract/backend.hpp"

namespace adjoin::lab {

/// One rank of a group whose other ranks do not exist: calls end at once, and what they would have received is zeros. So an
/// observer or the memory use shows what one rank does, for any number of ranks, without starting them. Collectives accept
/// tensors without memory.
class SilentBackend final : public Backend {
 public:
  SilentBackend(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void exchange(std::span<const Message> messages, const Call& call) override;
  void run_collective(const Call& call) override;
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override;
  void abort(std::string_view) noexcept override {}

 private:
  int rank_, size_;
};

}  // namespace adjoin::lab
