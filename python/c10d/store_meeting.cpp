#include "python/c10d/store_meeting.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/base/processes.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/contract/diagnosis.hpp"

namespace adjoin::c10d_backend {

namespace {
constexpr auto kFailure = "adjoin/failure";
}

std::string StoreMeeting::key(int step, int rank) const {
  return "adjoin/" + std::to_string(step) + "/" + std::to_string(rank);
}

/// What each rank gives follows the process that gives it.
std::vector<std::string> StoreMeeting::exchange(const std::string& mine) {
  const int step = ++step_;
  const int64_t own = id_of_process();
  const Process process{own, hash_of(std::string_view(id_of_machine()))};
  std::vector<uint8_t> given(sizeof(process) + mine.size());
  std::memcpy(given.data(), &process, sizeof(process));
  std::ranges::copy(mine, given.begin() + sizeof(process));
  store_->set(key(step, rank_), given);
  try {
    await(step);
  } catch (const CommunicationError& error) {
    store_->set(kFailure, std::string(error.what()));  // for ranks of other hosts, which cannot see who has died
    throw;
  }
  std::vector<std::string> all;
  std::vector<Process> processes(static_cast<size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) {
    const std::vector<uint8_t> got = store_->get(key(step, rank));
    require(got.size() >= sizeof(Process), "a rank was built from another version of adjoin");
    std::memcpy(&processes[static_cast<size_t>(rank)], got.data(), sizeof(Process));
    all.emplace_back(got.begin() + sizeof(Process), got.end());
  }
  processes_ = std::move(processes);
  if (step > 1) store_->deleteKey(key(step - 1, rank_));  // all have read it, as they have come to this step
  return all;
}

void StoreMeeting::end() {
  store_->deleteKey(key(step_, rank_));
}

/// Waits for what all ranks give in a step.
void StoreMeeting::await(int step) {
  using Clock = std::chrono::steady_clock;
  const auto give_up = Clock::now() + std::min<std::chrono::milliseconds>(timeout_, diagnosis::kLongest);
  auto looks = Clock::now() + std::chrono::milliseconds(100);
  auto pause = std::chrono::microseconds(200);
  std::vector<std::string> keys;
  for (int rank = 0; rank < size_; ++rank) keys.push_back(key(step, rank));
  while (!store_->check(keys)) {
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(2 * pause, std::chrono::milliseconds(10));
    if (Clock::now() >= looks) {
      check_peers();
      looks = Clock::now() + std::chrono::milliseconds(100);
    }
    if (Clock::now() < give_up) continue;
    std::vector<int> missing;
    for (int rank = 0; rank < size_; ++rank)
      if (!store_->check({keys[static_cast<size_t>(rank)]})) missing.push_back(rank);
    throw CommunicationError("Timed out after " + diagnosis::text_of(timeout_) +
                             " while a group was made: " + ranks_text(missing) + " of it has not come");
  }
}

void StoreMeeting::check_peers() {
  if (store_->check({kFailure})) throw CommunicationError(store_->get_to_str(kFailure));
  if (const std::string text = who_died_(); !text.empty()) throw CommunicationError(text + " while a group was made");
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    const Process& peer = processes_[rank];
    if (peer.host != processes_[static_cast<size_t>(rank_)].host) continue;
    if (state_of_process(peer.pid) == ProcessState::gone)
      throw CommunicationError("rank " + std::to_string(rank) + " (process " + std::to_string(peer.pid) +
                               ") has died while a group was made");
  }
}

}  // namespace adjoin::c10d_backend
