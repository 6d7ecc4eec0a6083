#include "adjoin/train/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <utility>

#include "adjoin/base/terminal.hpp"

namespace adjoin::train {
namespace {

constexpr size_t kLongestBar = 24, kShortestBar = 6, kAroundBar = 3;  // characters; "[", "]" and a space
constexpr double kMemory = 0.95;                                      // weight of the loss shown before

std::string bar(const Progress& progress, size_t width) {
  const double fraction = static_cast<double>(progress.step) / std::max<double>(1, static_cast<double>(progress.steps));
  const auto full = static_cast<size_t>(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(width));
  std::string text(width + kAroundBar, ' ');
  text[0] = '[';
  std::fill_n(text.begin() + 1, full, '=');
  text[width + 1] = ']';
  return text;
}

int columns_of_stderr() {
  return terminal_can_redraw() ? terminal_columns(STDERR_FILENO) : 0;
}

}  // namespace

std::string clock_time(double seconds) {
  // The hours of any run fit int64; a NaN is shown as unknown.
  if (!(seconds >= 0 && seconds < 1e9)) return "-:--";
  const auto all = static_cast<int64_t>(std::llround(seconds));
  char text[32];
  if (all >= 3600)
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", long{all / 3600}, long{all / 60 % 60}, long{all % 60});
  else
    std::snprintf(text, sizeof text, "%ld:%02ld", long{all / 60}, long{all % 60});
  return text;
}

namespace {

/// The parts of a line, with the spaces before them.
struct Parts {
  std::string step, loss, speed, left;
};

Parts shown_parts_of(const Progress& progress) {
  const std::string steps = std::to_string(progress.steps), step = std::to_string(progress.step);
  char loss[48], speed[48];
  std::snprintf(loss, sizeof loss, "  loss %.4f", progress.loss.value_or(0));
  std::snprintf(speed, sizeof speed, "  %.1f samples/s", progress.samples_per_second);
  return {"step " + std::string(steps.size() - std::min(steps.size(), step.size()), ' ') + step + "/" + steps,
          progress.loss ? loss : "", speed, "  " + clock_time(progress.seconds_left) + " left"};
}

}  // namespace

void SmoothedLoss::add(double loss) {
  if (std::isfinite(loss)) value_ = value_ ? kMemory * *value_ + (1 - kMemory) * loss : loss;
}

std::string progress_line(const Progress& progress) {
  const auto [step, loss, speed, left] = shown_parts_of(progress);
  return step + loss + speed + left;
}

std::string progress_bar(const Progress& progress, int columns) {
  const auto [step, loss, speed, left] = shown_parts_of(progress);
  constexpr int kLeftFree = 3;  // for the ^C of an interrupt; also, a full line would begin another
  const auto room = static_cast<size_t>(std::max(columns - kLeftFree, 0));
  for (const std::string& line : {step + loss + speed + left, step + loss + left, step + loss, step}) {
    if (line.size() > room) continue;
    const size_t free = room - line.size();
    const bool with_bar = free >= kAroundBar + kShortestBar;
    return (with_bar ? bar(progress, std::min(free - kAroundBar, kLongestBar)) : "") + line;
  }
  return step.substr(0, room);
}

ProgressBar::ProgressBar(int64_t steps, int64_t first_step)
    : ProgressBar(steps, first_step, std::cerr, columns_of_stderr) {}

ProgressBar::ProgressBar(int64_t steps, int64_t first_step, std::ostream& out, std::function<int()> columns)
    : steps_(steps), first_step_(first_step), out_(out), columns_(std::move(columns)) {}

ProgressBar::~ProgressBar() {
  pause();
}

void ProgressBar::update(int64_t step, std::optional<double> loss, int64_t samples) {
  samples_ += samples;
  if (loss) loss_.add(*loss);
  const Clock::time_point now = Clock::now();
  const double since = std::chrono::duration<double>(now - printed_).count();
  if (step < steps_ && since < 0.1) return;
  const int columns = columns_();
  if (step < steps_ && columns == 0 && since < 5) return;
  printed_ = now;
  const double seconds = std::chrono::duration<double>(now - begun_).count();
  const auto done = static_cast<double>(step - first_step_);
  const Progress progress{.step = step,
                          .steps = steps_,
                          .loss = loss_.value(),
                          .samples_per_second = static_cast<double>(samples_) / seconds,
                          .seconds_left = seconds / done * static_cast<double>(steps_ - step)};
  line_open_ = columns > 0;
  if (line_open_)
    out_ << '\r' << progress_bar(progress, columns) << "\x1b[K" << std::flush;
  else
    out_ << progress_line(progress) << std::endl;
}

void ProgressBar::pause() {
  if (line_open_) out_ << std::endl;
  line_open_ = false;
}

}  // namespace adjoin::train
