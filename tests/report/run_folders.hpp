#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "adjoin/train/metrics.hpp"
#include "adjoin/train/run_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::test {

/// Makes the folder of a run that has taken so many steps, as training writes it.
inline void make_run(const std::filesystem::path& folder, int64_t steps, const std::string& measure = "accuracy") {
  std::filesystem::create_directories(folder);
  if (!std::filesystem::exists(folder / ".adjoin")) put(folder / ".adjoin", "");
  train::MetricsFile metrics(folder / train::kMetrics);
  for (int64_t step = 1; step <= steps; ++step)
    metrics.add(train::StepMetrics{.step = step,
                                   .loss = 1.0 / static_cast<double>(step),
                                   .measures = {{measure, 0.5}},
                                   .learning_rate = 1e-3,
                                   .tokens_per_second = 1000,
                                   .step_seconds = 0.125,
                                   .times = train::StepTimes{}});
}

inline train::Configuration tiny_with_ranks(int64_t dp, int64_t pp, int64_t tp) {
  train::Configuration configuration = train::configuration_of("tiny");
  configuration.dp = dp, configuration.pp = pp, configuration.tp = tp;
  configuration.data = "/nowhere";
  return configuration;
}

/// A summary as an ended run has it, for more keys to be added.
inline nlohmann::ordered_json summary_of(const train::Configuration& configuration) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (int rank = 0; rank < configuration.dp * configuration.pp * configuration.tp; ++rank)
    ranks.push_back({{"rank", rank}, {"stages", {rank}}, {"parameters", 1000}, {"peak_memory_bytes", 3 << 20}});
  return {{"adjoin", "1"},         {"libtorch", "2"},
          {"host", "here"},        {"date", "2026-01-31T23:59:59Z"},
          {"ranks", ranks},        {"test_loss", 0.25},
          {"train_loss", 0.5},     {"train_seconds", 60.0},
          {"test_accuracy", 0.75}, {"config", train::to_json(configuration)}};
}

inline void put_summary(const std::filesystem::path& folder, const nlohmann::ordered_json& summary) {
  put(folder / train::kSummary, summary.dump());
}

}  // namespace adjoin::test
