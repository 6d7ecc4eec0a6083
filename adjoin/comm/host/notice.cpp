#include "adjoin/comm/host/notice.hpp"

#include "adjoin/base/processes.hpp"

namespace adjoin::host {

namespace {

using State = AgentNotice::State;

class Taken : NotCopied {
 public:
  Taken() {
    ProcessNotice& own = ProcessNotice::own();
    for (AgentNotice& agent : own.agents) {
      State free = State::free;
      if (!agent.state.compare_exchange_strong(free, State::computes)) continue;
      agent.version.fetch_add(1);
      notice_ = &agent;
      return;
    }
    own.lacks_room.store(true);
  }
  ~Taken() {
    if (notice_ != &unseen_) notice_->change(State::free);
  }
  AgentNotice& notice() { return *notice_; }

 private:
  AgentNotice unseen_;
  AgentNotice* notice_ = &unseen_;
};

}  // namespace

ProcessNotice& ProcessNotice::own() {
  const SharedMemory& memory = *SharedMemory::current();
  return of(memory, static_cast<int>(memory.place().own));
}

AgentNotice& notice_of_thread() {
  thread_local Taken taken;
  return taken.notice();
}

}  // namespace adjoin::host
