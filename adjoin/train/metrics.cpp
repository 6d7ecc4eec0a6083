#include "adjoin/train/metrics.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "adjoin/train/metrics_line.hpp"

namespace adjoin::train {
namespace {

const std::filesystem::path& keep_up_to(const std::filesystem::path& path, int64_t last_step,
                                        std::map<std::string, int64_t>& last) {
  std::ifstream before(path);
  write_atomically(path, [&](OutputFile& file) {
    MetricsLine line;
    for (std::string text; last_step > 0 && std::getline(before, text);) {
      if (!read_metrics_line(text, line) || line.step > last_step) continue;
      file.write(text + '\n');
      last[line.kind] = line.step;
    }
  });
  return path;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t last_step, const std::filesystem::path& events)
    : file_(keep_up_to(path, last_step, last_), OutputFile::Mode::append) {
  if (!events.empty()) events_.emplace(events, path);
}

void MetricsFile::add(const StepMetrics& metrics) {
  nlohmann::ordered_json line = {
      {"kind", "step"}, {"step", metrics.step}, {"epoch", metrics.epoch}, {"loss", metrics.loss}};
  for (const Measure& measure : metrics.measures) line[measure.name] = measure.value;
  line["learning_rate"] = metrics.learning_rate;
  if (metrics.gradient_norm) line["gradient_norm"] = *metrics.gradient_norm;
  line.update({{"tokens_per_second", metrics.tokens_per_second}, {"step_seconds", metrics.step_seconds}});
  if (metrics.times)
    line.update({{"waiting_seconds", metrics.times->waiting_seconds},
                 {"communicating_seconds", metrics.times->communicating_seconds},
                 {"slowest_rank", metrics.times->slowest_rank}});
  line["skipped"] = metrics.skipped;
  if (metrics.flops_per_second) line["flops_per_second"] = *metrics.flops_per_second;
  if (metrics.loss_scale) line["loss_scale"] = *metrics.loss_scale;
  if (!metrics.hash.empty()) line["hash"] = metrics.hash;
  add_line(line);
}

void MetricsFile::add(const EvaluationMetrics& metrics) {
  const std::string kind = metrics.is_validation ? "validation" : "evaluation";
  const auto [last, is_first] = last_.emplace(kind, metrics.step);
  if (!is_first && std::exchange(last->second, metrics.step) == metrics.step) return;
  nlohmann::ordered_json line = {{"kind", kind}, {"step", metrics.step}, {"loss", metrics.loss}};
  for (const Measure& measure : metrics.measures) line[measure.name] = measure.value;
  add_line(line);
}

void MetricsFile::add_line(const nlohmann::ordered_json& line) {
  const std::string text = line.dump();
  file_.write(text + '\n');
  if (!events_) return;
  MetricsLine numbers;
  read_metrics_line(text, numbers);
  events_->add(numbers);
}

}  // namespace adjoin::train
