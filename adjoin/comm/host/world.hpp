#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/host/parking.hpp"

/// Ranks of one host that reach each other's memory: threads of a process, or processes that share their tensors' memory.
namespace adjoin::host {

/// What a blocked thread waits for; it lives on that thread's stack. Others ask it while the thread sleeps.
struct Waiting {
  std::function<bool()> is_over;            // whether all has happened; once true it stays so
  std::function<std::vector<int>()> needs;  // the ranks of the world, each of which must yet act
  std::function<std::string()> describe;
};

/// One thread of a rank, as it waits.
class Waiter {
 public:
  virtual ~Waiter() = default;

  /// Waits for a short time, at the price of the core; whether the condition came to hold. Sleep where it did not.
  template <class Condition>
  bool wait_briefly(const Patience& patience, Condition holds) {
    return Parking::wait_briefly(patience, holds, [&] { step_aside(); });
  }
  /// Sleeps at `parking` until `waiting` is over or the world is aborted, which it is where that would be never.
  virtual void sleep(Parking& parking, const Waiting& waiting) = 0;

 protected:
  /// Leaves a core on which another rank waits too.
  virtual void step_aside() = 0;
};

/// Bytes that are given back when it dies; none where there are none.
class Room {
 public:
  Room(std::pmr::memory_resource& memory, int64_t bytes)
      : memory_(&memory),
        bytes_(static_cast<size_t>(bytes)),
        data_(bytes > 0 ? memory.allocate(bytes_, kLine) : nullptr) {}
  ~Room() {
    if (data_) memory_->deallocate(data_, bytes_, kLine);
  }
  Room(Room&& other) noexcept
      : memory_(other.memory_), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
  Room& operator=(Room&&) = delete;

  void* at(int64_t offset) const { return static_cast<char*>(data_) + offset; }

  static constexpr size_t kLine = 64;

 private:
  std::pmr::memory_resource* memory_;
  size_t bytes_;
  void* data_;
};

/// What all ranks of one launch have in common.
class World {
 public:
  World(int ranks, const Patience& patience) : size_(ranks), patience_(patience) {}
  virtual ~World() = default;

  int size() const { return size_; }
  const Patience& patience() const { return patience_; }

  /// Whether the world has ended, which ends every rank's blocked and later calls. Processes end instead.
  bool aborted() const { return aborted_.load(); }
  /// Throws CommunicationError with the reason.
  [[noreturn]] void throw_aborted() const { throw CommunicationError(reason_of_end()); }
  /// The runtime found what is wrong, and ends the world.
  virtual void end(const std::string& diagnosis) noexcept = 0;
  /// Whether a rank has returned, and never calls again.
  virtual bool has_left(int rank) const = 0;

  /// Gives memory that all ranks reach, at the same addresses.
  virtual std::pmr::memory_resource& memory() { return *std::pmr::new_delete_resource(); }
  /// Whether the ranks are processes, which reach some memory of each other alone: not stacks, for one.
  virtual bool is_of_processes() const { return false; }
  virtual bool reaches(const void* memory) const { return memory != nullptr; }

 protected:
  virtual std::string reason_of_end() const = 0;

  std::atomic<bool> aborted_ = false;

 private:
  const int size_;
  const Patience patience_;
};

}  // namespace adjoin::host
