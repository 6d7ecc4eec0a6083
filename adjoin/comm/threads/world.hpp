#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/comm/threads/parking.hpp"

namespace adjoin::threads {

class Group;

/// What all workers of one launch share: whether it was aborted, who has returned, and which groups live.
class World {
 public:
  explicit World(int ranks);

  int size() const { return static_cast<int>(departed_.size()); }
  const Patience& patience() const { return patience_; }

  /// Ends every worker's blocked and later calls; the first reason counts.
  void abort(std::string_view reason) noexcept;
  bool aborted() const { return aborted_.load(); }
  std::string reason() const;
  /// Throws CommunicationError with the reason.
  [[noreturn]] void throw_aborted() const;

  /// Says that `rank` has returned and will never call again.
  void depart(int rank) noexcept;
  bool has_departed(int rank) const { return departed_[static_cast<size_t>(rank)].load(); }

  /// A group whose waiters are to be woken when the world changes.
  void watch(const std::shared_ptr<Group>& group);

 private:
  void wake_all() noexcept;

  Patience patience_;
  std::atomic<bool> aborted_ = false;
  std::vector<std::atomic<bool>> departed_;
  mutable std::mutex mutex_;
  std::string reason_;
  std::vector<std::weak_ptr<Group>> groups_;
};

}  // namespace adjoin::threads
