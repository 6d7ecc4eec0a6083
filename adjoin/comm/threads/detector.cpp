#include "adjoin/comm/threads/detector.hpp"

#include <algorithm>
#include <utility>

namespace adjoin::threads {

using diagnosis::Worker;

Agent::Agent(Detector& detector, int rank, Kind kind)
    : detector_(detector), rank_(rank), kind_(kind), owner_(kind == Kind::of_any_thread) {
  const std::lock_guard lock(detector_.mutex_);
  detector_.agents_[static_cast<size_t>(rank)].push_back(this);
  detector_.has_left_[static_cast<size_t>(rank)].store(false);
}

Agent::~Agent() {
  if (process_.is_here()) detector_.leave(*this);  // else a thread that does not exist here may hold the lock
}

Detector::Detector(int ranks, std::function<void(const std::string&)> on_deadlock)
    : on_deadlock_(std::move(on_deadlock)),
      agents_(static_cast<size_t>(ranks)),
      has_left_(new std::atomic<bool>[static_cast<size_t>(ranks)]()) {}

/// Makes `change` under the lock, and looks for a deadlock where it says that there may be one.
template <class Change>
void Detector::look_after(Change change) {
  std::string report;
  {
    const std::lock_guard lock(mutex_);
    if (change()) report = find_deadlock();
  }
  if (!report.empty()) on_deadlock_(report);
}

void Detector::block(Agent& agent, const Waiting& waiting) {
  look_after([&] {
    agent.waiting_ = &waiting;
    // Usually the ranks that are waited for still run; then no further search is needed.
    return !std::ranges::all_of(waiting.needs(), [&](int rank) { return may_act(rank); });
  });
}

void Detector::unblock(Agent& agent) {
  const std::lock_guard lock(mutex_);
  agent.waiting_ = nullptr;
}

void Detector::rest(Agent& agent, bool rests) {
  look_after([&] {
    agent.rests_ = rests;
    return rests && !may_act(agent.rank());
  });
}

void Detector::leave(Agent& agent) {
  look_after([&] {
    std::vector<Agent*>& agents = agents_[static_cast<size_t>(agent.rank())];
    const bool was_there = std::erase(agents, &agent) > 0;
    if (agents.empty()) has_left_[static_cast<size_t>(agent.rank())].store(true);
    return was_there;
  });
}

std::string Detector::look(const std::string& headline) const {
  const std::lock_guard lock(mutex_);
  return diagnosis::report(headline, workers(/*with_calls=*/true), ranks());
}

bool Detector::may_act(int rank) const {
  const std::vector<Agent*>& agents = agents_[static_cast<size_t>(rank)];
  return std::any_of(agents.begin(), agents.end(), [&](const Agent* agent) {
    return !agent->rests_ && (!agent->waiting_ || agent->waiting_->is_over());
  });
}

std::vector<Worker> Detector::workers(bool with_calls) const {
  std::vector<Worker> all;
  for (const auto& agents : agents_)
    for (const Agent* agent : agents) {
      Worker worker{.rank = agent->rank()};
      if (agent->rests_) worker.state = Worker::State::rests;
      if (agent->waiting_) {
        if (with_calls) worker.call = agent->waiting_->describe();
        worker.needs = agent->waiting_->needs();
        if (!agent->waiting_->is_over()) worker.state = Worker::State::waits;
      }
      all.push_back(std::move(worker));
    }
  return all;
}

std::string Detector::find_deadlock() const {
  const std::vector<bool> is_stuck = diagnosis::stuck(workers(/*with_calls=*/false), ranks());
  if (std::find(is_stuck.begin(), is_stuck.end(), true) == is_stuck.end()) return "";
  return diagnosis::report("deadlock: these calls can never end", workers(/*with_calls=*/true), ranks());
}

}  // namespace adjoin::threads
