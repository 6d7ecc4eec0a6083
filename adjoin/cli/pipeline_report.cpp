#include "adjoin/cli/pipeline_report.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/base/text.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/cli/schedule_options.hpp"
#include "adjoin/pipeline/picture.hpp"

namespace adjoin::cli {
namespace {

constexpr size_t kMostGroups = 4;  // groups of ranks that are listed separately

std::string short_number(double value) {
  return formatted("%.10g", value);
}

int64_t actions_of(const pipeline::Schedule& schedule) {
  int64_t count = 0;
  for (const auto& actions : schedule.actions) count += static_cast<int64_t>(actions.size());
  return count;
}

std::string bubble_text(const SimulatedPipeline& pipeline) {
  const std::string simulated = fixed(pipeline.timeline.bubble, 4) + " of the time";
  return simulated + (pipeline.formula ? ", by formula " + fixed(*pipeline.formula, 4) : ", no formula holds");
}

/// "4 on rank 0, 3 on ranks 1-2"; if there are many different numbers, the most and the least.
std::string in_flight_text(const std::vector<int>& most) {
  std::string text;
  size_t groups = 0;
  for (size_t first = 0; first < most.size() && groups <= kMostGroups; ++groups) {
    size_t end = first;
    std::vector<int> ranks;
    while (end < most.size() && most[end] == most[first]) ranks.push_back(static_cast<int>(end++));
    text += (text.empty() ? "" : ", ") + grouped(most[first]) + " on " + ranks_text(ranks);
    first = end;
  }
  if (groups <= kMostGroups) return text;
  const auto place = [&](auto at) { return grouped(*at) + " on rank " + std::to_string(at - most.begin()); };
  return "from " + place(std::ranges::min_element(most)) + " to " + place(std::ranges::max_element(most));
}

}  // namespace

Report report_of(const SimulatedPipeline& pipeline, bool as_json) {
  const auto& [name, schedule, costs_of_rank, transfer, costs, timeline, formula] = pipeline;
  Report report{as_json};
  report.text << title_of(name, schedule) << "\n\n"
              << pipeline::picture_of(schedule, costs, timeline) << "\ncosts of ranks  forward "
              << short_number(costs_of_rank.forward) << ", input gradient " << short_number(costs_of_rank.input)
              << ", weight gradient " << short_number(costs_of_rank.weight) << ", transfer " << short_number(transfer)
              << "\nmakespan        " << short_number(timeline.makespan) << "\nbubble          "
              << bubble_text(pipeline) << "\nmost in flight  " << in_flight_text(timeline.most_in_flight) << '\n';
  report.json = {{"schedule", name},
                 {"ranks", schedule.ranks()},
                 {"stages", schedule.stages},
                 {"microbatches", schedule.micro_batches},
                 {"actions", actions_of(schedule)},
                 {"makespan", timeline.makespan},
                 {"bubble", timeline.bubble},
                 {"bubble_formula", formula ? Json(*formula) : nullptr},
                 {"most_in_flight", timeline.most_in_flight}};
  return report;
}

}  // namespace adjoin::cli
