#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "adjoin/plan/step_plan.hpp"
#include "tests/support/random_task.hpp"
#include "tests/support/seen_steps.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::plan {

using namespace train;

namespace {

/// Which rows of a table other ranks look up is not known, but about how many.
TEST(PlanStep, assumes_that_others_look_up_as_many_rows) {
  for_each_world({2, 4}, [](const Communicator& world) {
    for (const int64_t zero : {0, 1, 3}) {
      Configuration c = large("classifier", Precision::fp32);
      c.words = 6000;
      c.vocabulary_size = 4000;
      c.dp = world.size();
      c.zero = zero;
      c.microbatches = 2;
      const std::unique_ptr<Task> task = task_of(c);
      const RankPlan plan = planned(c, *task, world);
      const Seen seen = seen_in_a_step(c, *task, world);
      const auto of_rows = [](std::vector<PlannedCall> calls) {
        std::erase_if(calls, [](const PlannedCall& call) { return call.collective != Collective::all_to_all; });
        return calls;
      };
      const auto bytes_of = [](const std::vector<PlannedCall>& calls) {
        double bytes = 0;
        for (const PlannedCall& call : calls) bytes += static_cast<double>(call.bytes);
        return bytes;
      };
      if (zero > 0 || !world.checked()) {  // where what is compared looks like ids that are gathered
        EXPECT_EQ(plan.calls.size(), seen.calls.size());
      }
      EXPECT_NEAR(static_cast<double>(plan.highest) / static_cast<double>(seen.peak), 1, 0.1) << "zero " << zero;
      if (zero == 0) continue;  // then rows of gradients are gathered
      EXPECT_EQ(of_rows(seen.calls).size(), 9u) << "counts, ids and rows, of two micro-batches and of the gradient";
      std::array<double, 2> of_all{bytes_of(of_rows(plan.calls)), bytes_of(of_rows(seen.calls))};
      world.all_reduce(buffer(of_all));
      EXPECT_NEAR(of_all[0] / of_all[1], 1, 0.35) << "of all ranks; two micro-batches have words in common";
      EXPECT_LT(bytes_of(plan.calls), 4.0 * static_cast<double>(2 * seen.parameters))
          << "which all weights and gradients are";
    }
  });
}

/// Each lane has the rows that its samples look up, not all of them.
TEST(PlanStep, has_no_more_of_a_table_with_more_lanes) {
  Configuration c = large("classifier", Precision::fp32);
  c.words = 30'000;  // so that the table is most of the model
  const std::unique_ptr<Task> task = task_of(c);
  const auto peak = [&](const char* same_bits) {
    c.same_bits = same_bits;
    const RankPlan plan = plan_step(c, *task, all_samples(*task)).front();
    const int64_t seen = seen_in_a_step(c, *task, Communicator()).peak;
    EXPECT_NEAR(static_cast<double>(plan.highest) / static_cast<double>(seen), 1, 0.1) << same_bits;
    return seen;
  };
  EXPECT_LT(peak("lanes=4,leaves=1") - peak("lanes=1,leaves=1"), 4 * c.words * c.hidden);
}

}  // namespace
}  // namespace adjoin::plan
