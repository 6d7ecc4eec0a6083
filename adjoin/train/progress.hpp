#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

namespace adjoin::train {

/// Where a run stands.
struct Progress {
  int64_t step = 0, steps = 0;
  std::optional<double> loss{};
  double samples_per_second = 0;
  double seconds_left = 0;
};

/// "1:05" or "2:03:09".
std::string clock_time(double seconds);

/// All of it, in one line.
std::string progress_line(const Progress& progress);

/// As much of it as `columns` have room for, what matters most first, and a bar in what room is left.
std::string progress_bar(const Progress& progress, int columns);

/// Shows a run's progress on stderr: a bar that redraws itself on a terminal, as wide as that is at the time, and a line
/// every few seconds elsewhere and on a terminal that cannot redraw. For one rank of a run.
class ProgressBar {
 public:
  /// `first_step` is where a resumed run begins. `out` and `columns` are stderr's unless given; 0 columns are no
  /// terminal, or one that cannot redraw.
  explicit ProgressBar(int64_t steps, int64_t first_step = 0);
  ProgressBar(int64_t steps, int64_t first_step, std::ostream& out, std::function<int()> columns);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// After each step, with its loss where it has one; `samples` are those of that step over all ranks. Prints at most ten times a second on a terminal,
  /// every five seconds elsewhere, and at the last step.
  void update(int64_t step, std::optional<double> loss, int64_t samples);
  /// Ends the bar's line so that others may print; the next update begins a new one.
  void pause();

 private:
  using Clock = std::chrono::steady_clock;

  int64_t steps_, first_step_;
  std::ostream& out_;
  std::function<int()> columns_;
  bool line_open_ = false;
  int64_t samples_ = 0;
  std::optional<double> smoothed_loss_;
  Clock::time_point begun_ = Clock::now(), printed_ = begun_;
};

}  // namespace adjoin::train
