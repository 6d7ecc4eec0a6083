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
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

int64_t actions_of(const pipeline::Schedule& schedule) {
  int64_t count = 0;
  for (const auto& actions : schedule.actions) count += static_cast<int64_t>(actions.size());
  return count;
}

std::string bubble_text(const PipelineReport& report) {
  const std::string simulated = fixed(report.timeline.bubble, 4) + " of the time";
  return simulated + (report.formula ? ", by formula " + fixed(*report.formula, 4) : ", no formula holds");
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

void print_pipeline(const PipelineReport& report) {
  const auto& costs = report.costs_of_rank;
  std::printf("%s\n\n%s\n", shown_text(title_of(report.name, report.schedule)).c_str(),
              pipeline::picture_of(report.schedule, report.costs, report.timeline).c_str());
  std::printf("costs of ranks  forward %s, input gradient %s, weight gradient %s, transfer %s\n",
              short_number(costs.forward).c_str(), short_number(costs.input).c_str(),
              short_number(costs.weight).c_str(), short_number(report.transfer).c_str());
  std::printf("makespan        %s\nbubble          %s\nmost in flight  %s\n",
              short_number(report.timeline.makespan).c_str(), bubble_text(report).c_str(),
              in_flight_text(report.timeline.most_in_flight).c_str());
}

void print_pipeline_json(const PipelineReport& report) {
  nlohmann::ordered_json json = {{"schedule", report.name},
                                 {"ranks", report.schedule.ranks()},
                                 {"stages", report.schedule.stages},
                                 {"microbatches", report.schedule.micro_batches},
                                 {"actions", actions_of(report.schedule)},
                                 {"makespan", report.timeline.makespan},
                                 {"bubble", report.timeline.bubble},
                                 {"bubble_formula", nullptr},
                                 {"most_in_flight", report.timeline.most_in_flight}};
  if (report.formula) json["bubble_formula"] = *report.formula;
  write_line(json_line(json));
}

}  // namespace adjoin::cli
