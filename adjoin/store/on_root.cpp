#include "adjoin/store/on_root.hpp"

#include "adjoin/comm/values.hpp"
#include "adjoin/store/messages.hpp"

namespace adjoin::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTellEvery = std::chrono::milliseconds(100);

}  // namespace

void wait_for_all(const Communicator& world, const std::string& what, std::future<void>& work,
                  std::chrono::milliseconds note_after) {
  const Clock::time_point begin = Clock::now();
  auto note_at = begin + note_after;
  for (bool all_are_done = false; !all_are_done;) {
    if (work.valid() && work.wait_for(kTellEvery) == std::future_status::ready) work.get();
    if (world.rank() == 0 && Clock::now() >= note_at) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin);
      note("still " + what + " after " + std::to_string(seconds.count()) + " s");
      note_at = begin + 2 * (note_at - begin);
    }
    all_are_done = largest_of_all(work.valid(), world) == 0;
  }
}

void on_all(const Communicator& world, const std::string& what, const std::function<void()>& work,
            std::chrono::milliseconds note_after) {
  std::future<void> running = std::async(std::launch::async, work);
  wait_for_all(world, what, running, note_after);
}

void on_root(const Communicator& world, const std::string& what, const std::function<void()>& work,
             std::chrono::milliseconds note_after) {
  on_all(
      world, what, world.rank() == 0 ? work : [] {}, note_after);
}

}  // namespace adjoin::train
