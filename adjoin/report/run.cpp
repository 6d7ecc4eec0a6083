#include "adjoin/report/run.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/output_folder.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/train/run_files.hpp"

namespace adjoin::report {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostRanks = 1 << 20;  // a larger number of the slowest rank is not believed

using Numbers = std::vector<std::pair<std::string, Series>>;

/// The series of a key; usually it is at the same place as in the previous line.
Series& series_of(Numbers& numbers, const std::string& key, size_t place) {
  if (place < numbers.size() && numbers[place].first == key) return numbers[place].second;
  for (auto& [name, series] : numbers)
    if (name == key) return series;
  return numbers.emplace_back(key, Series{}).second;
}

Numbers* numbers_of(Run& run, std::string_view kind) {
  if (kind == "step") return &run.of_steps;
  if (kind == "validation") return &run.of_validations;
  return kind == "evaluation" ? &run.of_evaluations : nullptr;
}

/// Whether the folder has the files of a run, whoever marked it.
bool looks_like_run(const fs::path& folder) {
  return fs::exists(folder / train::kMetrics) || fs::exists(folder / train::kSummary) || train::has_checkpoint(folder);
}

}  // namespace

void check_is_run(const fs::path& folder) {
  train::on_disk([&] {
    require(!folder.empty(), "the name of a folder is empty");
    require(fs::exists(folder), [&] { return folder.string() + ": there is no such folder"; });
    require(fs::is_directory(folder), [&] { return folder.string() + ": is not a folder"; });
    require(train::OutputFolder::is_ours(folder) || looks_like_run(folder), [&] {
      return folder.string() + ": is not an output folder of adjoin train" +
             (fs::is_empty(folder) ? ": it is empty" : "");
    });
  });
}

std::optional<double> number_of(const nlohmann::ordered_json& json, std::string_view key) {
  if (!json.is_object() || !json.contains(key) || !json[std::string(key)].is_number()) return std::nullopt;
  return json[std::string(key)].get<double>();
}

const nlohmann::ordered_json& Run::fact(std::string_view key) const {
  static const nlohmann::ordered_json nothing;
  for (const auto* json : {&summary, &beginning})
    if (json->is_object() && json->contains(key)) return (*json)[std::string(key)];
  return nothing;
}

std::string Run::state_text() const {
  if (state == RunState::finished) return "finished";
  const std::string at = "step " + grouped(last_step) + (steps > 0 ? " of " + grouped(steps) : "");
  return (state == RunState::running ? "goes on: " : "not finished: ") + at;
}

std::string Run::damage_text() const {
  std::vector<std::string> damages;
  if (damaged_lines > 0) damages.push_back(counted(damaged_lines, "damaged line") + " of metrics.jsonl left out");
  for (const std::string& file : damaged_files) damages.push_back(file + " is damaged");
  return joined(damages, "; ");
}

void add_line(Run& run, std::string_view text, train::MetricsLine& buffer) {
  if (!train::read_metrics_line(text, buffer)) {
    ++run.damaged_lines;
    return;
  }
  Numbers* numbers = numbers_of(run, buffer.kind);
  if (numbers == nullptr) return;  // from a later version
  for (size_t i = 0; i < buffer.numbers.size(); ++i) {
    const auto& [key, value] = buffer.numbers[i];
    Series& series = series_of(*numbers, key, i);
    if (!series.steps.empty() && series.steps.back() >= buffer.step) {  // it belongs to no run
      ++run.damaged_lines;
      return;
    }
    series.steps.push_back(buffer.step);
    series.values.push_back(value);
  }
  run.last_step = std::max(run.last_step, buffer.step);
  if (buffer.skipped) run.skipped.push_back(buffer.step);
  const double slowest = buffer.number("slowest_rank", -1);
  if (slowest < 0 || slowest >= kMostRanks) return;
  const auto rank = static_cast<size_t>(slowest);
  if (run.slowest.size() <= rank) run.slowest.resize(rank + 1);
  ++run.slowest[rank];
}

Run read_run(const std::string& folder) {
  check_is_run(folder);
  const fs::path path = folder;
  Run run{.name = folder};
  const bool is_held = train::OutputFolder::is_held(path);
  const std::string metrics = train::text_or_nothing(path / train::kMetrics);
  const auto object_in = [&](const char* file) {
    nlohmann::ordered_json json = train::read_json(path / file);
    if (!json.is_object() && fs::exists(path / file)) run.damaged_files.emplace_back(file);
    return json;
  };
  run.summary = object_in(train::kSummary);
  run.beginning = object_in(train::kRunFile);
  if (const auto beginning = train::read_beginning(path)) {
    run.configuration = beginning->configuration;
    run.steps = beginning->steps;
  }
  run.state = is_held ? RunState::running : run.summary.is_object() ? RunState::finished : RunState::ended_early;
  train::MetricsLine buffer;
  for (size_t at = 0; at < metrics.size();) {
    const size_t end = metrics.find('\n', at);
    if (end == metrics.npos && is_held) break;  // a line that is being written
    const std::string_view line = std::string_view(metrics).substr(at, end == metrics.npos ? end : end - at);
    if (!line.empty()) add_line(run, line, buffer);
    at = end == metrics.npos ? metrics.size() : end + 1;
  }
  require(run.last_step > 0 || run.summary.is_object(),
          [&] { return folder + ": the run has not taken a step yet, so there is nothing to report"; });
  return run;
}

std::vector<Run> read_runs(const std::vector<std::string>& folders) {
  std::set<fs::path> given;
  for (const std::string& folder : folders) {
    check_is_run(folder);
    require(given.insert(fs::canonical(folder)).second, [&] { return folder + " is given twice"; });
  }
  std::vector<Run> runs(folders.size());
  std::vector<std::exception_ptr> failures(folders.size());
  const auto read_every_second = [&](size_t first) {
    for (size_t i = first; i < folders.size(); i += 2) {
      try {
        runs[i] = read_run(folders[i]);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  std::thread second(read_every_second, 1);
  read_every_second(0);
  second.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return runs;
}

}  // namespace adjoin::report
