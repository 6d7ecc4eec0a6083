#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "adjoin/base/fixed_text.hpp"
#include "adjoin/base/not_copied.hpp"
#include "adjoin/base/shared_memory.hpp"

/// What each process of a host shows of the threads in it that call, at a fixed place of its part of the shared memory. Who waits
/// reads it and so finds deadlocks and dead peers. Plain data: a process writes its own, and readers take what they find.
namespace adjoin::host {

struct AgentNotice {
  enum class State : int32_t {
    free,
    computes,
    waits,  // for each of `needs`, or for any of them
    rests   // until another thread of its process has acted
  };
  std::atomic<State> state = State::free;
  std::atomic<uint64_t> version = 0;  // counts the changes of the state
  std::atomic<uint64_t> beats = 0;    // counts how often its thread has found that it must go on waiting
  std::array<std::atomic<uint64_t>, SharedMemory::kMostProcesses / 64> needs = {};  // a bit for each process's part
  std::atomic<bool> needs_any = false;
  FixedText<500> call;  // what it waits in

  void change(State to) {
    state.store(to, std::memory_order_relaxed);
    version.fetch_add(1);
  }
};

struct ProcessNotice {
  std::atomic<int64_t> pid = 0, start = 0;
  std::atomic<int32_t> world_rank = 0;
  std::atomic<bool> has_left = false;    // it has ended as it should, or will at once
  std::atomic<bool> lacks_room = false;  // for all its threads; stays true once set
  std::array<AgentNotice, 80> agents;

  /// That of a part of the memory.
  static ProcessNotice& of(const SharedMemory& memory, int process) {
    static_assert(sizeof(ProcessNotice) <= SharedMemory::kNoticeBytes);
    return *static_cast<ProcessNotice*>(memory.notice(process));
  }
  /// That of this process in its memory.
  static ProcessNotice& own();
};

/// This thread's notice, taken when it is first asked for and free again when the thread ends; one that nobody reads where there
/// is no room.
AgentNotice& notice_of_thread();

/// While it lives, this thread shows another state than `computes`.
class Shows : NotCopied {
 public:
  explicit Shows(AgentNotice::State state) : notice_(notice_of_thread()) { notice_.change(state); }
  ~Shows() { notice_.change(AgentNotice::State::computes); }
  AgentNotice& notice() { return notice_; }

 private:
  AgentNotice& notice_;
};

}  // namespace adjoin::host
