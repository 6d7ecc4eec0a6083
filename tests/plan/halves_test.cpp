// Plans of steps with --halves.

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/hosts_backend.hpp"
#include "tests/support/seen_steps.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::plan {
namespace {

using namespace adjoin::testing;

TEST(PlannedHalves, call_and_need_what_a_step_does) {
  for (const char* model : {"classifier", "decoder"})
    for (const bool sp : {false, true})
      for_each_world({2}, [&](const Communicator& world) {
        if (world.size() != 2) return;
        Configuration c = large(model, sp ? Precision::bf16 : Precision::fp32);
        c.tp = 2;
        c.sp = sp;
        c.halves = true;
        const std::unique_ptr<Task> task = task_of(c);
        const RankPlan plan = planned(c, *task, world);
        for (const bool take_turns : {false, true}) {
          const Seen seen = seen_in_a_step(c, *task, take_turns ? between_hosts(world) : world);
          EXPECT_EQ(text_of(plan.calls), text_of(seen.calls)) << model;
          EXPECT_NEAR(static_cast<double>(plan.highest) / static_cast<double>(seen.peak), 1, 0.1)
              << model << (sp ? ", sp" : "") << (take_turns ? ", in turns, " : ", ") << seen.peak << " bytes";
        }
      });
}

}  // namespace
}  // namespace adjoin::plan
