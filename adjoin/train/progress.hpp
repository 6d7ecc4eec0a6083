#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

namespace adjoin::train {

/// The loss that a run's progress shows: smoothed, since single batches are noisy.
class SmoothedLoss {
 public:
  /// Counts the loss of the next step; one that is not finite does not count.
  void add(double loss);
  /// None before the first loss.
  const std::optional<double>& value() const { return value_; }

 private:
  std::optional<double> value_;
};

/// How far a run has come.
struct Progress {
  int64_t step = 0, steps = 0;
  std::optional<double> loss{};
  double samples_per_second = 0;
  double seconds_left = 0;
};

/// "1:05" or "2:03:09".
std::string clock_time(double seconds);

/// Everything, in one line.
std::string progress_line(const Progress& progress);

/// As much as fits into `columns`, the most important first, and a bar in the remaining room.
std::string progress_bar(const Progress& progress, int columns);

/// Shows a run's progress on stderr: on a terminal a bar that redraws itself in the terminal's current width; elsewhere, or on
/// a terminal that cannot redraw, a line every few seconds. For one rank of a run.
class ProgressBar {
 public:
  /// `first_step`: where a resumed run begins. `out` and `columns` default to stderr's; 0 columns mean no terminal, or one that
  /// cannot redraw.
  explicit ProgressBar(int64_t steps, int64_t first_step = 0);
  ProgressBar(int64_t steps, int64_t first_step, std::ostream& out, std::function<int()> columns);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// To call after each step, with its loss if it has one; `samples` are those of the step over all ranks. Prints at most ten
  /// times a second on a terminal, every five seconds elsewhere, and at the last step.
  void update(int64_t step, std::optional<double> loss, int64_t samples);
  /// Ends the bar's line so that others may print; the next update begins a new line.
  void pause();

 private:
  using Clock = std::chrono::steady_clock;

  int64_t steps_, first_step_;
  std::ostream& out_;
  std::function<int()> columns_;
  bool line_open_ = false;
  int64_t samples_ = 0;
  SmoothedLoss loss_;
  Clock::time_point begun_ = Clock::now(), printed_ = begun_;
};

}  // namespace adjoin::train
