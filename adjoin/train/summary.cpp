#include "adjoin/train/summary.hpp"

#include <torch/headeronly/version.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "adjoin/base/text.hpp"
#include "adjoin/base/version.hpp"
#include "adjoin/lab/machine.hpp"
#include "adjoin/store/messages.hpp"

namespace adjoin::train {
namespace {

nlohmann::ordered_json json_of_pipeline(const Summary& summary) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (size_t rank = 0; rank < summary.pipeline_step.size(); ++rank) {
    nlohmann::ordered_json actions = nlohmann::ordered_json::array();
    for (const TimedAction& timed : summary.pipeline_step[rank])
      actions.push_back({{"action", std::string(1, pipeline::letter_of(timed.action.kind))},
                         {"stage", timed.action.stage},
                         {"microbatch", timed.action.micro_batch},
                         {"begin", timed.begin},
                         {"end", timed.end}});
    ranks.push_back({{"rank", rank}, {"actions", std::move(actions)}});
  }
  return {{"step", summary.last_step}, {"ranks", std::move(ranks)}};
}

/// The shares of time of each rank that has any; empty if none has.
std::vector<std::vector<std::string>> table_of_times(const std::vector<RankSummary>& ranks) {
  std::vector<std::vector<std::string>> table;
  for (const RankSummary& rank : ranks) {
    if (!rank.times) continue;
    const lab::RankTimes& t = *rank.times;
    const double all = t.computing + t.waiting + t.communicating + t.data;
    if (table.empty()) table.push_back({"  rank", "computing", "waiting", "communicating", "reading data"});
    table.push_back({std::to_string(rank.rank)});
    for (const double seconds : {t.computing, t.waiting, t.communicating, t.data})
      table.back().push_back(fixed(100 * seconds / all, 1) + " %");
  }
  return table;
}

}  // namespace

Origin this_origin() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  const Machine machine = this_machine();
  return {.adjoin = kVersion, .libtorch = TORCH_VERSION, .host = machine.host, .date = date, .machine = machine};
}

nlohmann::ordered_json to_json(const Machine& machine) {
  return {{"cores", machine.cores},
          {"usable_cores", machine.usable_cores},
          {"numa_nodes", machine.numa_nodes},
          {"simd", machine.simd},
          {"memory_bytes", machine.memory_limit > 0 ? machine.memory_limit : machine.memory}};
}

nlohmann::ordered_json to_json(const Summary& summary) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const RankSummary& rank : summary.ranks) {
    ranks.push_back(nlohmann::ordered_json{{"rank", rank.rank},
                                           {"stages", rank.stages},
                                           {"parameters", rank.parameters},
                                           {"peak_memory_bytes", rank.peak_memory_bytes}});
    if (rank.times)
      ranks.back().update({{"computing_seconds", rank.times->computing},
                           {"waiting_seconds", rank.times->waiting},
                           {"communicating_seconds", rank.times->communicating},
                           {"data_seconds", rank.times->data},
                           {"hidden_seconds", rank.times->hidden}});
  }
  const Configuration& c = summary.configuration;
  const Origin& origin = summary.origin;
  nlohmann::ordered_json json = {{"adjoin", origin.adjoin},
                                 {"libtorch", origin.libtorch},
                                 {"host", origin.host},
                                 {"date", origin.date},
                                 {"config", to_json(c)},
                                 {"layout",
                                  {{"dp", c.dp},
                                   {"ep", c.ep},
                                   {"pp", c.pp},
                                   {"cp", c.cp},
                                   {"tp", c.tp},
                                   {"sp", c.sp},
                                   {"backend", text_of("backend", c)},
                                   {"ranks", summary.ranks.size()}}},
                                 {"ranks", ranks},
                                 {"train_loss", summary.train_loss},
                                 {"test_loss", summary.test_loss}};
  json["machine"] = to_json(origin.machine);
  for (const Measure& measure : summary.test_measures) json["test_" + measure.name] = measure.value;
  for (const auto& [key, value] : summary.test_details.items()) json["test_" + key] = value;
  if (!summary.expert_rows.empty()) json["expert_rows"] = summary.expert_rows;
  json["train_seconds"] = summary.train_seconds;
  json["skipped_steps"] = summary.skipped_steps;
  if (const auto& best = summary.validations.best_loss)
    json.update({{"validation_loss", *best}, {"best_step", summary.validations.best_step}});
  if (!summary.pipeline_step.empty()) json["pipeline_step"] = json_of_pipeline(summary);
  return json;
}

void print_table(std::ostream& out, const Summary& summary) {
  std::vector<std::vector<std::string>> results;
  const auto add = [&](const std::string& name, const std::string& value) {
    results.push_back({"  " + name + std::string(14 - std::min<size_t>(14, name.size()), ' '), value});
  };
  for (const Measure& measure : summary.test_measures) add("test " + spoken(measure), to_string(measure));
  add("test loss", fixed(summary.test_loss, 4));
  add("training loss", fixed(summary.train_loss, 4));
  add("training time", fixed(summary.train_seconds, 1) + " s");
  if (const auto& best = summary.validations.best_loss) {
    add("validation loss", fixed(*best, 4));
    add("best step", grouped(summary.validations.best_step));
  }
  if (summary.skipped_steps > 0) add("skipped steps", grouped(summary.skipped_steps));
  const bool has_stages = std::ranges::any_of(summary.ranks, [](const RankSummary& rank) {
    return std::ranges::any_of(rank.stages, [](int stage) { return stage != 0; });
  });
  std::vector<std::vector<std::string>> ranks{{"  rank", "parameters", "peak tensor memory"}};
  if (has_stages) ranks[0].insert(ranks[0].begin() + 1, "stages");
  for (const RankSummary& rank : summary.ranks) {
    ranks.push_back({std::to_string(rank.rank), grouped(rank.parameters),
                     fixed(static_cast<double>(rank.peak_memory_bytes) / (1 << 20), 1) + " MiB"});
    if (has_stages) ranks.back().insert(ranks.back().begin() + 1, short_ranges_text(rank.stages));
  }
  out << table_text(results, "lr") << '\n' << table_text(ranks, "r");
  if (const auto times = table_of_times(summary.ranks); !times.empty()) out << '\n' << table_text(times, "r");
}

}  // namespace adjoin::train
