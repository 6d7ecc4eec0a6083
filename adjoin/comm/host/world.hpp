#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/contract/where.hpp"
#include "adjoin/comm/host/parking.hpp"

/// Ranks of one host that reach each other's memory: threads of a process, or processes that share their tensors' memory.
namespace adjoin::host {

/// What a blocked thread waits for; stored on that thread's stack. Other threads read it while the thread sleeps.
struct Waiting {
  std::function<bool()> is_over;            // whether all has happened; once true, stays true
  std::function<std::vector<int>()> needs;  // the ranks of the world that must all still act
  std::function<std::string()> describe;
  bool needs_any = false;  // one of `needs` is enough
};

/// One thread of a rank that waits.
class Waiter {
 public:
  virtual ~Waiter() = default;

  /// Waits for a short time while it occupies the core; returns whether the condition became true. Sleep where it did not.
  template <class Condition>
  bool wait_briefly(const Patience& patience, Condition holds) {
    return Parking::wait_briefly(patience, holds, [&] { step_aside(); });
  }
  /// Sleeps at `parking` until `waiting` is over or the world is aborted, which happens where it would never be over.
  virtual void sleep(Parking& parking, const Waiting& waiting) = 0;
  /// Sleeps until `waiting` is over, whatever becomes of the world, or a rank that it needs has died.
  virtual void sleep_through(Parking& parking, const Waiting& waiting) { parking.sleep(waiting.is_over); }
  /// Where its call was made, if that is looked for only now that it turns out to wait or to fail.
  virtual std::optional<Where> where() { return std::nullopt; }

 protected:
  /// Leaves a core on which another rank waits too.
  virtual void step_aside() = 0;
};

/// Memory that is freed when this object dies; nullptr where `bytes` is 0.
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

/// What all ranks of one launch share.
class World {
 public:
  World(int ranks, const Patience& patience) : size_(ranks), patience_(patience) {}
  virtual ~World() = default;

  int size() const { return size_; }
  const Patience& patience() const { return patience_; }

  /// Whether the world has ended; then every rank's blocked and later calls end. Processes terminate instead.
  bool aborted() const { return aborted_->load(); }
  /// Throws CommunicationError with the reason.
  [[noreturn]] void throw_aborted() const { throw CommunicationError(reason_of_end()); }
  /// Ends the world with an error that the runtime found.
  virtual void end(const std::string& diagnosis) noexcept = 0;
  /// Whether a rank has returned, after which it never calls again.
  virtual bool has_left(int rank) const = 0;
  /// Whether a rank's process is gone though the world goes on; it asks the system.
  virtual bool has_died(int) const { return false; }

  /// Allocates memory that all ranks reach, at the same addresses.
  virtual std::pmr::memory_resource& memory() { return *std::pmr::new_delete_resource(); }
  /// Whether the ranks are processes, which reach only some of each other's memory (for example no stacks).
  virtual bool is_of_processes() const { return false; }
  virtual bool reaches(const void* memory) const { return memory != nullptr; }

 protected:
  virtual std::string reason_of_end() const = 0;

  /// Of this object, unless processes share one.
  std::atomic<bool>* aborted_ = &own_aborted_;

 private:
  std::atomic<bool> own_aborted_ = false;
  const int size_;
  const Patience patience_;
};

}  // namespace adjoin::host
