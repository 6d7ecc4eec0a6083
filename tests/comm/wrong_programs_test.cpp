// Random programs of which one rank differs: each ends soon, with the right cause, and never in a wrong result.

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/programs/run.hpp"
#include "tests/support/programs/trials.hpp"
#include "tests/support/programs/wrong.hpp"
#include "tests/support/sanitized.hpp"

namespace adjoin {
namespace {

using namespace testing::programs;

constexpr uint64_t kWrongPrograms = testing::kIsSanitized ? 100 : 1000;

constexpr auto kDeadline = std::chrono::seconds(20);

/// The class and the message of what a launch has thrown.
std::pair<std::string, std::string> thrown_by_launch(const WrongProgram& program, bool is_checked) {
  const auto fn = [&](const Communicator& world) {
    run(program.of(world.rank()), world, [](const std::string&) {});  // after the change results mean nothing
  };
  try {
    launch_threads(program.meant.ranks(), fn, {.deadline = kDeadline, .checked = is_checked});
  } catch (const InvalidArgument& e) {
    return {"InvalidArgument", e.what()};
  } catch (const CommunicationError& e) {
    return {"CommunicationError", e.what()};
  } catch (const std::exception& e) {
    return {"Error", e.what()};
  }
  return {"nothing", ""};
}

// That they end by the deadline is a difference, so no clock is read.
TEST(WrongPrograms, end_at_once_with_the_cause) {
  const std::vector<uint64_t> all = seeds(kWrongPrograms);
  for_each_seed(all, /*at_a_time=*/8, [&](uint64_t seed) {
    const WrongProgram program = wrong_program(seed);
    const HangGuard guard("seed " + std::to_string(seed) + ": " + describe(program));
    const auto [error, message] = thrown_by_launch(program, seed % 2 == 0);
    EXPECT_EQ(difference(program, error, message), "") << "seed " << seed << ": " << describe(program);
  });
}

}  // namespace
}  // namespace adjoin
