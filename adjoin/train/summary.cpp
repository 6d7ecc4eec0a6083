#include "adjoin/train/summary.hpp"

#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "adjoin/base/version.hpp"
#include "adjoin/lab/machine.hpp"
#include "adjoin/train/messages.hpp"

namespace adjoin::train {
namespace {

std::string fixed(double number, int digits) {
  char text[400];  // a double has up to 309 digits before the point
  std::snprintf(text, sizeof text, "%.*f", digits, number);
  return text;
}

std::string right(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

}  // namespace

Origin this_origin() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {.adjoin = kVersion, .libtorch = TORCH_VERSION, .host = this_machine().host, .date = date};
}

nlohmann::ordered_json to_json(const Summary& summary) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const RankSummary& rank : summary.ranks)
    ranks.push_back(nlohmann::ordered_json{
        {"rank", rank.rank}, {"parameters", rank.parameters}, {"peak_memory_bytes", rank.peak_memory_bytes}});
  const Configuration& c = summary.configuration;
  const Origin& origin = summary.origin;
  nlohmann::ordered_json json = {{"adjoin", origin.adjoin},
                                 {"libtorch", origin.libtorch},
                                 {"host", origin.host},
                                 {"date", origin.date},
                                 {"config", to_json(c)},
                                 {"layout",
                                  {{"dp", c.dp},
                                   {"pp", c.pp},
                                   {"cp", c.cp},
                                   {"tp", c.tp},
                                   {"sp", c.sp},
                                   {"backend", c.backend},
                                   {"ranks", summary.ranks.size()}}},
                                 {"ranks", ranks},
                                 {"train_loss", summary.train_loss},
                                 {"test_loss", summary.test_loss}};
  for (const Measure& measure : summary.test_measures) json["test_" + measure.name] = measure.value;
  json["train_seconds"] = summary.train_seconds;
  json["skipped_steps"] = summary.skipped_steps;
  if (const auto& best = summary.validations.best_loss)
    json.update({{"validation_loss", *best}, {"best_step", summary.validations.best_step}});
  return json;
}

void print_table(std::ostream& out, const Summary& summary) {
  std::vector<std::pair<std::string, std::string>> results;
  for (const Measure& measure : summary.test_measures)
    results.emplace_back("test " + spoken(measure), to_string(measure));
  results.emplace_back("test loss", fixed(summary.test_loss, 4));
  results.emplace_back("training loss", fixed(summary.train_loss, 4));
  results.emplace_back("training time", fixed(summary.train_seconds, 1) + " s");
  if (const auto& best = summary.validations.best_loss)
    results.emplace_back("validation loss", fixed(*best, 4) + " after step " + grouped(summary.validations.best_step));
  if (summary.skipped_steps > 0) results.emplace_back("skipped steps", grouped(summary.skipped_steps));
  size_t names = 16, width = 0;
  for (const auto& [name, value] : results) {
    names = std::max(names, name.size() + 2);
    width = std::max(width, value.size());
  }
  for (const auto& [name, value] : results)
    out << "  " << name << std::string(names - name.size(), ' ') << right(value, width) << '\n';
  const std::string parameters = "parameters", memory = "peak tensor memory";
  size_t columns[] = {4, parameters.size(), memory.size()};
  for (const RankSummary& rank : summary.ranks) columns[1] = std::max(columns[1], grouped(rank.parameters).size());
  const auto row = [&](const std::string& a, const std::string& b, const std::string& c) {
    out << "  " << right(a, columns[0]) << "  " << right(b, columns[1]) << "  " << right(c, columns[2]) << '\n';
  };
  out << '\n';
  row("rank", parameters, memory);
  for (const RankSummary& rank : summary.ranks)
    row(std::to_string(rank.rank), grouped(rank.parameters),
        fixed(static_cast<double>(rank.peak_memory_bytes) / (1 << 20), 1) + " MiB");
}

}  // namespace adjoin::train
