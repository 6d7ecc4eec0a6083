#include "adjoin/train/metrics.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace adjoin::train {
namespace {

struct Line {
  int64_t step = -1;  // of a line that a crash left torn
  std::string kind;
};

Line parsed(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return {};
  const bool has_kind = json.contains("kind") && json["kind"].is_string();
  return {json["step"].get<int64_t>(), has_kind ? json["kind"].get<std::string>() : ""};
}

const std::filesystem::path& keep_up_to(const std::filesystem::path& path, int64_t last_step,
                                        std::map<std::string, int64_t>& last) {
  std::ifstream before(path);
  write_atomically(path, [&](OutputFile& file) {
    for (std::string text; last_step > 0 && std::getline(before, text);) {
      const Line line = parsed(text);
      if (line.step < 0 || line.step > last_step) continue;
      file.write(text + '\n');
      last[line.kind] = line.step;
    }
  });
  return path;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t last_step)
    : file_(keep_up_to(path, last_step, last_), OutputFile::Mode::append) {}

void MetricsFile::add(const StepMetrics& metrics) {
  nlohmann::ordered_json line = {
      {"kind", "step"}, {"step", metrics.step}, {"epoch", metrics.epoch}, {"loss", metrics.loss}};
  for (const Measure& measure : metrics.measures) line[measure.name] = measure.value;
  line.update({{"learning_rate", metrics.learning_rate},
               {"tokens_per_second", metrics.tokens_per_second},
               {"step_seconds", metrics.step_seconds},
               {"waiting_seconds", metrics.times.waiting_seconds},
               {"communicating_seconds", metrics.times.communicating_seconds},
               {"slowest_rank", metrics.times.slowest_rank},
               {"skipped", metrics.skipped}});
  if (metrics.flops_per_second) line["flops_per_second"] = *metrics.flops_per_second;
  if (metrics.loss_scale) line["loss_scale"] = *metrics.loss_scale;
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
  file_.write(line.dump() + '\n');
}

}  // namespace adjoin::train
