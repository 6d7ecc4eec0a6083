#include "adjoin/train/metrics.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace adjoin::train {
namespace {

/// The step of a line, or -1 of one that a crash left torn.
int64_t step_of(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return -1;
  return json["step"].get<int64_t>();
}

const std::filesystem::path& keep_up_to(const std::filesystem::path& path, int64_t last_step) {
  std::ifstream before(path);
  write_atomically(path, [&](OutputFile& file) {
    for (std::string line; last_step > 0 && std::getline(before, line);)
      if (const int64_t step = step_of(line); step >= 0 && step <= last_step) file.write(line + '\n');
  });
  return path;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t last_step)
    : file_(keep_up_to(path, last_step), OutputFile::Mode::append) {}

void MetricsFile::add(const StepMetrics& metrics) {
  add_line({{"kind", "step"},
            {"step", metrics.step},
            {"epoch", metrics.epoch},
            {"loss", metrics.loss},
            {"accuracy", metrics.accuracy},
            {"learning_rate", metrics.learning_rate},
            {"tokens_per_second", metrics.tokens_per_second},
            {"step_seconds", metrics.step_seconds}});
}

void MetricsFile::add(const EvaluationMetrics& metrics) {
  add_line({{"kind", "evaluation"}, {"step", metrics.step}, {"loss", metrics.loss}, {"accuracy", metrics.accuracy}});
}

void MetricsFile::add_line(const nlohmann::ordered_json& line) {
  file_.write(line.dump() + '\n');
}

}  // namespace adjoin::train
