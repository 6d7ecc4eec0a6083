#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "adjoin/base/text.hpp"
#include "adjoin/report/chart.hpp"
#include "adjoin/task/measure.hpp"

namespace adjoin::report {
namespace {

using Numbers = std::vector<std::pair<std::string, Series>>;

/// The numbers that every step has, whatever is trained, and the titles of their charts, in order.
constexpr std::pair<std::string_view, std::string_view> kOfAnyRun[] = {
    {"learning_rate", "learning rate"},
    {"gradient_norm", "norm of the gradients"},
    {"loss_scale", "loss scale"},
    {"tokens_per_second", "tokens per second"},
    {"flops_per_second", "floating-point operations per second"},
    {"step_seconds", "seconds of a step"},
    {"waiting_seconds", "seconds of waiting in a step, mean of the ranks"},
    {"communicating_seconds", "seconds of communicating in a step, mean of the ranks"}};
constexpr std::string_view kWithoutChart[] = {"epoch", "slowest_rank"};
/// Numbers that every model has, so that they do not show what it is trained for.
constexpr std::string_view kOfEachModel[] = {"loss", "balance_loss", "z_loss", "fullest_expert"};

bool is_of_any_run(std::string_view key) {
  return std::ranges::find(kOfAnyRun, key, [](const auto& row) { return row.first; }) != std::end(kOfAnyRun) ||
         std::ranges::find(kWithoutChart, key) != std::end(kWithoutChart);
}

std::set<std::string> measures_of(const Run& run) {
  std::set<std::string> measures;
  for (const Numbers* numbers : {&run.of_steps, &run.of_validations, &run.of_evaluations})
    for (const auto& [key, series] : *numbers)
      if (!is_of_any_run(key) && std::ranges::find(kOfEachModel, key) == std::end(kOfEachModel)) measures.insert(key);
  return measures;
}

/// Groups the runs into sets with common measures, directly or through other runs; runs without measures are one set.
std::vector<std::vector<size_t>> comparable(const std::vector<Run>& runs) {
  std::vector<size_t> set_of(runs.size());
  std::iota(set_of.begin(), set_of.end(), 0);
  std::map<std::string, size_t> first;  // the first run with a measure
  for (size_t run = 0; run < runs.size(); ++run) {
    std::set<std::string> measures = measures_of(runs[run]);
    if (measures.empty()) measures.insert("");
    for (const std::string& measure : measures) {
      const size_t from = set_of[run], to = set_of[first.emplace(measure, run).first->second];
      std::ranges::replace(set_of, std::max(from, to), std::min(from, to));
    }
  }
  std::map<size_t, std::vector<size_t>> sets;
  for (size_t run = 0; run < runs.size(); ++run) sets[set_of[run]].push_back(run);
  std::vector<std::vector<size_t>> result;
  for (auto& [first_run, members] : sets) result.push_back(std::move(members));
  return result;
}

void add_chart(ChartGroup& group, std::string title, const std::vector<Run>& runs, const std::vector<size_t>& members,
               Numbers Run::*numbers, std::string_view key) {
  Chart chart{.title = std::move(title)};
  bool is_line = false;
  for (const size_t run : members)
    for (const auto& [name, series] : runs[run].*numbers) {
      if (name != key || series.steps.empty()) continue;
      chart.curves.push_back({run, &series});
      is_line = is_line || series.steps.size() > 1;
    }
  if (is_line) group.charts.push_back(std::move(chart));
}

/// The keys of losses and measures, in the order of the first run that has them.
std::vector<std::string> keys_of(const std::vector<Run>& runs, const std::vector<size_t>& members,
                                 Numbers Run::*numbers) {
  std::vector<std::string> keys;
  for (const size_t run : members)
    for (const auto& [key, series] : runs[run].*numbers)
      if (!is_of_any_run(key) && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  return keys;
}

std::string title_of(const std::vector<Run>& runs, const std::vector<size_t>& members) {
  std::vector<std::string> names;
  for (const size_t run : members) names.push_back(runs[run].name);
  return joined(names);
}

}  // namespace

std::vector<ChartGroup> charts_of(const std::vector<Run>& runs) {
  std::vector<ChartGroup> groups;
  const auto sets = comparable(runs);
  constexpr std::pair<const char*, Numbers Run::*> kParts[] = {
      {"training ", &Run::of_steps}, {"validation ", &Run::of_validations}, {"test ", &Run::of_evaluations}};
  for (const std::vector<size_t>& members : sets) {
    ChartGroup group{.title = sets.size() > 1 ? title_of(runs, members) : ""};
    for (const auto& [part, numbers] : kParts)
      for (const std::string& key : keys_of(runs, members, numbers))
        add_chart(group, part + spoken(train::Measure{.name = key}), runs, members, numbers, key);
    if (!group.charts.empty()) groups.push_back(std::move(group));
  }
  std::vector<size_t> all(runs.size());
  std::iota(all.begin(), all.end(), 0);
  ChartGroup common{.title = sets.size() > 1 ? "all runs" : ""};
  for (const auto& [key, title] : kOfAnyRun) add_chart(common, std::string(title), runs, all, &Run::of_steps, key);
  if (!common.charts.empty()) groups.push_back(std::move(common));
  return groups;
}

}  // namespace adjoin::report
