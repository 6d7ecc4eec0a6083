#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/store/output_file.hpp"
#include "adjoin/task/measure.hpp"
#include "adjoin/train/event_file.hpp"
#include "adjoin/train/run_times.hpp"

namespace adjoin::train {

/// What is known about a training step after it. Loss and measures are those of the step's global batch.
struct StepMetrics {
  int64_t step = 0;  // counted from 1
  double epoch = 0;  // passes over the training samples so far, as a fraction
  double loss = 0;
  std::vector<Measure> measures{};
  double learning_rate = 0;
  std::optional<double> gradient_norm{};  // of all gradients, before clipping
  double tokens_per_second = 0;           // over all ranks
  double step_seconds = 0;
  std::optional<StepTimes> times{};          // none on a device, whose work the host's clock does not see
  std::optional<double> flops_per_second{};  // over all ranks; none where the model's operations are not known
  bool skipped = false;                      // a gradient was not finite: weights are unchanged
  std::optional<double> loss_scale{};        // with fp16: the factor of the loss
  std::string hash{};  // of weights and moments, as `adjoin checkpoint --hash` prints it; "" if not due
};

/// The exact mean loss and measures of the test part, or of the samples held out for validation, after a step.
struct EvaluationMetrics {
  int64_t step = 0;
  bool is_validation = false;
  double loss = 0;
  std::vector<Measure> measures{};
};

/// The file metrics.jsonl: one JSON object a line; every number has the digits that restore the same double.
class MetricsFile {
 public:
  /// Opens the file and keeps only the lines up to step `last_step` (0: none), so that a resumed run continues it. If `events`
  /// is given, the same lines go into an EventFile in that folder.
  /// Throws: IoError.
  explicit MetricsFile(const std::filesystem::path& path, int64_t last_step = 0,
                       const std::filesystem::path& events = {});

  /// Appends one line at once: a reader never sees half of it. A step's evaluation is written only once, however often the
  /// finished run is resumed.
  /// Throws: IoError.
  void add(const StepMetrics& metrics);
  void add(const EvaluationMetrics& metrics);

 private:
  void add_line(const nlohmann::ordered_json& line);

  std::map<std::string, int64_t> last_;  // for each kind of line, the last step that is in the file
  OutputFile file_;
  std::optional<EventFile> events_;
};

}  // namespace adjoin::train
