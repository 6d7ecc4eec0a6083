#include "adjoin/plan/dry_run.hpp"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/plan/job.hpp"
#include "adjoin/plan/planned_samples.hpp"
#include "adjoin/plan/step_plan.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/train/prepared_run.hpp"
#include "adjoin/train/stages.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::plan {

using namespace train;

void dry_run(const Configuration& given, const TaskMaker& make, bool as_json) {
  std::optional<Silence> silence;
  if (as_json) silence.emplace();
  Configuration configuration = completed(given, make);
  check_planned_device(configuration);
  require(grid_sizes(configuration).ranks() <= kMostThreads, [&] {
    return grid_sizes(configuration).needs() + ", a dry run plans at most " + std::to_string(kMostThreads);
  });
  const std::unique_ptr<Task> task = prepared(configuration, make, /*writes=*/false);
  beginning_of(configuration, *task, make);
  if (mpi_job_rank() != 0) return;
  const std::vector<int64_t> samples = longest_samples(configuration, *task);
  const auto planned = [&](nn::AssumedExperts::Spread routing) {
    return plan_step(configuration, *task, samples, routing, hosts_of_job());
  };
  const std::vector<RankPlan> ranks = planned(nn::AssumedExperts::Spread::even);
  int64_t rows = 0;
  for (const RankPlan& rank : ranks) rows = std::max(rows, rank.rows);
  say("a rank goes through at most " + grouped(rows) + (configuration.is_of_tensors() ? " samples" : " tokens") +
      " at once");
  if (configuration.pp > 1 && !as_json)
    print_stages(std::cout, stages_of(configuration, segments_of(configuration, *task)));
  int64_t of_full_experts = 0;
  if (configuration.ep > 1)
    for (const RankPlan& rank : planned(nn::AssumedExperts::Spread::here))
      of_full_experts = std::max(of_full_experts, rank.highest);
  if (!as_json) return print_plan(std::cout, ranks, of_full_experts);
  nlohmann::ordered_json json{{"layout", layout_text(configuration)}, {"largest_micro_batch", rows}};
  if (of_full_experts > 0) json["full_experts_bytes"] = of_full_experts;
  json["ranks"] = to_json(ranks);
  std::cout << json.dump() << '\n';
}

std::vector<RankPlan> plan_longest_step(const Configuration& configuration, const TaskMaker& make) {
  check_planned_device(configuration);
  const std::unique_ptr<Task> task = make(configuration);
  return plan_step(configuration, *task, longest_samples(configuration, *task));
}

}  // namespace adjoin::plan
