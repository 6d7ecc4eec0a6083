#include "adjoin/train/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

namespace adjoin::train {
namespace {

constexpr int kBarWidth = 24;
constexpr double kMemory = 0.95;  // of the shown loss from one step to the next: single batches are noisy

std::string bar(double fraction) {
  const int full = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kBarWidth);
  return "[" + std::string(full, '=') + std::string(kBarWidth - full, ' ') + "]";
}

}  // namespace

std::string clock_time(double seconds) {
  // Whole hours of a run fit int64; what is no number yet shows as unknown.
  if (!(seconds >= 0 && seconds < 1e9)) return "-:--";
  const auto all = static_cast<int64_t>(std::llround(seconds));
  char text[32];
  if (all >= 3600)
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", long{all / 3600}, long{all / 60 % 60}, long{all % 60});
  else
    std::snprintf(text, sizeof text, "%ld:%02ld", long{all / 60}, long{all % 60});
  return text;
}

std::string progress_line(const Progress& progress, bool with_bar) {
  const std::string steps = std::to_string(progress.steps), step = std::to_string(progress.step);
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, "  loss %.4f  %.1f reviews/s  ", progress.loss, progress.reviews_per_second);
  std::string line =
      with_bar ? bar(static_cast<double>(progress.step) / std::max<double>(1, progress.steps)) + " " : "";
  line += "step " + std::string(steps.size() - std::min(steps.size(), step.size()), ' ') + step + "/" + steps;
  return line + numbers + clock_time(progress.seconds_left) + " left";
}

ProgressBar::ProgressBar(int64_t steps, int64_t first_step)
    : ProgressBar(steps, first_step, std::cerr, ::isatty(STDERR_FILENO) != 0) {}

ProgressBar::ProgressBar(int64_t steps, int64_t first_step, std::ostream& out, bool terminal)
    : steps_(steps), first_step_(first_step), out_(out), terminal_(terminal) {}

ProgressBar::~ProgressBar() {
  pause();
}

void ProgressBar::update(int64_t step, double loss, int64_t reviews) {
  reviews_ += reviews;
  smoothed_loss_ = any_ ? kMemory * smoothed_loss_ + (1 - kMemory) * loss : loss;
  any_ = true;
  const Clock::time_point now = Clock::now();
  const double pause_seconds = terminal_ ? 0.1 : 5;
  if (step < steps_ && std::chrono::duration<double>(now - printed_).count() < pause_seconds) return;
  printed_ = now;
  const double seconds = std::chrono::duration<double>(now - begun_).count();
  const auto done = static_cast<double>(step - first_step_);
  const std::string line = progress_line({.step = step,
                                          .steps = steps_,
                                          .loss = smoothed_loss_,
                                          .reviews_per_second = static_cast<double>(reviews_) / seconds,
                                          .seconds_left = seconds / done * static_cast<double>(steps_ - step)},
                                         terminal_);
  if (terminal_)
    out_ << '\r' << line << "\x1b[K" << std::flush;
  else
    out_ << line << std::endl;
  line_open_ = terminal_;
}

void ProgressBar::pause() {
  if (line_open_) out_ << std::endl;
  line_open_ = false;
}

}  // namespace adjoin::train
