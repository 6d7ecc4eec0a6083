#include "adjoin/comm/turns.hpp"

#include <string>
#include <system_error>
#include <thread>

#include "adjoin/base/carried_state.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/contract/call_site.hpp"

namespace adjoin {

namespace {

struct PartHere {
  Turns* turns = nullptr;
  size_t part = 0;
};
thread_local PartHere part_here;

}  // namespace

Turns::Turns(const Communicator& group) : group_(group.world_ranks().begin(), group.world_ranks().end()) {}

Turns* Turns::current() {
  return part_here.turns;
}

bool Turns::is_second() {
  return part_here.turns && part_here.part == 1;
}

void Turns::run(const std::function<void()>& first, const std::function<void()>& second) {
  require(!current(), "Turns: expected no turns within a part of others");
  std::thread thread;
  try {
    thread = std::thread([&, give = carried_state(), caller = CallSite::current()] {
      give();
      const CallSite site(caller);
      run_part(1, second);
    });
  } catch (const std::system_error& error) {
    throw CommunicationError(std::string("a thread for a part that takes turns cannot be started: ") + error.what());
  }
  run_part(0, first);
  thread.join();
  if (error_) std::rethrow_exception(error_);
}

void Turns::run_part(size_t part, const std::function<void()>& work) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return turn_ == part; });
  if (!error_) {
    lock.unlock();
    part_here = {this, part};
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    part_here = {};
    lock.lock();
    if (!error_) error_ = error;
  }
  has_ended_[part] = true;
  turn_ = 1 - part;
  changed_.notify_all();
}

void Turns::change() {
  const size_t part = part_here.part;
  std::unique_lock lock(mutex_);
  if (!has_ended_[1 - part]) {
    turn_ = 1 - part;
    changed_.notify_all();
    changed_.wait(lock, [&] { return turn_ == part; });
  }
  if (error_) throw CommunicationError("the other part of this rank, with which this one takes turns, has failed");
}

}  // namespace adjoin
