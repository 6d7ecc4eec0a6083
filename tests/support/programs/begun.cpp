#include "tests/support/programs/begun.hpp"

#include <chrono>
#include <csignal>
#include <exception>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"

namespace adjoin::testing::programs {

void run_begun(const std::string& kind, int culprit, const Communicator& world) {
  static std::vector<float> x(1000, 1.0f);
  static std::vector<std::unique_ptr<Pending>> left;
  const bool is_culprit = world.rank() == culprit;
  if (kind == "begun-late" && is_culprit) return std::this_thread::sleep_for(std::chrono::minutes(1));
  const bool is_other = kind == "begun-mismatch" && is_culprit;
  auto first = is_other ? world.begin().broadcast(buffer(x), 0) : world.begin().all_reduce(buffer(x));
  if (kind == "begun-left") {
    if (!is_culprit)
      first->wait(), world.recv(buffer(x), culprit);  // which sends nothing, so that the last sum cannot end
    left.push_back(world.begin().all_reduce(buffer(x)));
    return;
  }
  if (is_culprit && kind == "begun-kill") raise(SIGKILL);
  if (is_culprit && kind == "begun-throws") throw InvalidArgument("the tank is empty");
  if (is_culprit && kind == "begun-caught") try {
      const auto second = world.begin().barrier();
      throw std::runtime_error("caught");
    } catch (const std::runtime_error&) {
    }
  for (;;) world.all_reduce(buffer(x));
}

void run_between_hosts(const std::function<void(const Communicator&)>& fn) {
  const LaunchOptions options;
  const MpiSession session({.deadline = options.deadline, .checked = options.checked, .ranks_of_a_host = 1});
  const Communicator world(session.world());
  try {
    fn(world);
    world.require_nothing_begun();
  } catch (...) {
    world.backend()->fail(std::current_exception());
  }
}

void exchange_other_lengths(int64_t sent, int64_t expected, bool begins, const Communicator& world) {
  const auto ranks = static_cast<size_t>(world.size());
  std::vector<int64_t> gives(ranks), gets(ranks);
  if (world.rank() == 1) gives[0] = sent;
  if (world.rank() == 0) gets[1] = expected;
  const std::vector<float> x(static_cast<size_t>(sent));
  std::vector<float> got(static_cast<size_t>(expected));
  const ConstBuffer in = const_buffer(x).slice(0, gives[0]);
  const Buffer out = buffer(got).slice(0, gets[1]);
  if (begins)
    world.begin().all_to_all(in, gives, out, gets)->wait();
  else
    world.all_to_all(in, gives, out, gets);
  world.barrier();
}

}  // namespace adjoin::testing::programs
