#include "adjoin/train/on_root.hpp"

#include <array>
#include <future>

#include "adjoin/train/messages.hpp"

namespace adjoin::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTellEvery = std::chrono::milliseconds(100);

}  // namespace

void on_root(const Communicator& world, const std::string& what, const std::function<void()>& work,
             std::chrono::milliseconds note_after) {
  std::array<int32_t, 1> is_done{};
  if (world.rank() != 0) {
    while (is_done[0] == 0) world.broadcast(buffer(is_done), 0);
    return;
  }
  const Clock::time_point begin = Clock::now();
  auto note_at = begin + note_after;
  std::future<void> result = std::async(std::launch::async, work);
  while (is_done[0] == 0) {
    is_done[0] = result.wait_for(kTellEvery) == std::future_status::ready;
    if (is_done[0] != 0) result.get();  // before the others go on, where it throws
    if (is_done[0] == 0 && Clock::now() >= note_at) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin);
      note("still " + what + " after " + std::to_string(seconds.count()) + " s");
      note_at += note_after;
    }
    world.broadcast(buffer(is_done), 0);
  }
}

}  // namespace adjoin::train
