#include "adjoin/report/watch.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <deque>
#include <fstream>
#include <iostream>
#include <numeric>
#include <optional>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/base/terminal.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/report/run.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/output_folder.hpp"
#include "adjoin/task/measure.hpp"
#include "adjoin/train/interrupt.hpp"
#include "adjoin/train/progress.hpp"
#include "adjoin/train/resume.hpp"
#include "adjoin/train/run_files.hpp"

namespace adjoin::report {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kBetweenLooks = std::chrono::milliseconds(200);
constexpr auto kBetweenLines = std::chrono::seconds(5), kBetweenWaits = std::chrono::seconds(60);
constexpr size_t kSteps = 50;                      // the speed is their mean
constexpr double kLongWait = 10, kLongSteps = 10;  // a long wait: so many seconds, and the time of so many steps

/// The new lines of a growing file. A file that has been replaced is read from its beginning.
class GrowingFile {
 public:
  explicit GrowingFile(fs::path path) : path_(std::move(path)) {}

  /// Calls `begin` if the file is a different one than before, and then `use` with each complete new line.
  template <class Begin, class Use>
  void read(Begin begin, Use use) {
    struct stat now {};
    if (::stat(path_.c_str(), &now) != 0) return;
    const bool is_another = at_ > 0 && (now.st_ino != inode_ || now.st_size < at_);
    if (is_another) at_ = 0, begin();
    inode_ = now.st_ino;
    std::ifstream file(path_, std::ios::binary);
    file.seekg(at_);
    for (std::string line; std::getline(file, line) && !file.eof();) {
      at_ += std::ssize(line) + 1;
      use(line);
    }
  }

  /// Seconds since the file was last written; none if it does not exist.
  std::optional<double> age() const {
    std::error_code error;
    const auto written = fs::last_write_time(path_, error);
    if (error) return std::nullopt;
    return std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
  }

 private:
  const fs::path path_;
  ino_t inode_ = 0;
  int64_t at_ = 0;
};

class Watch {
 public:
  Watch(fs::path folder, const WatchScreen& screen)
      : folder_(std::move(folder)), screen_(screen), metrics_(folder_ / train::kMetrics) {}

  /// Looks once; returns false if the run has ended.
  bool look() {
    const bool is_held = train::OutputFolder::is_held(folder_);  // before the files are read, so that these are final
    if (!configuration_) configuration_ = train::read_beginning(folder_);
    metrics_.read([&] { begin(); }, [&](const std::string& line) { take(line); });
    is_first_look_ = false;
    const bool has_summary = fs::exists(folder_ / train::kSummary);
    if (!is_held && (step_ > 0 || has_summary)) {
      finish();
      return false;
    }
    if (step_ == 0)
      say_once(is_held               ? "the run has not taken a step yet"
               : fs::exists(folder_) ? "the run has not begun; waiting for it"
                                     : folder_.string() + " does not exist yet; waiting for a run to begin there");
    else
      show();
    return true;
  }

  void end_line() {
    if (is_line_open_) screen_.out << std::endl;
    is_line_open_ = false;
  }

 private:
  void begin() {
    step_ = 0;
    loss_ = {};
    seconds_.clear();
    configuration_ = train::read_beginning(folder_);
    said_.clear();
  }

  void take(const std::string& text) {
    if (!train::read_metrics_line(text, line_)) return;
    if (line_.kind != "step") {
      if (!is_first_look_) say(evaluation_text());
      return;
    }
    step_ = line_.step;
    if (configuration_ && step_ == configuration_->first_step + 1)
      loss_ = {};  // training forgets it when it is resumed
    loss_.add(line_.number("loss", NAN));
    seconds_.push_back(line_.number("step_seconds", 0));
    if (seconds_.size() > kSteps) seconds_.pop_front();
    is_news_ = true;
  }

  /// "step 100  validation loss 0.4123  accuracy 0.8130", as training prints it.
  std::string evaluation_text() const {
    std::string text = "step " + std::to_string(line_.step) + "  " + (line_.kind == "evaluation" ? "test" : line_.kind);
    const char* between = " ";
    for (const auto& [key, value] : line_.numbers) {
      text += between + train::spoken({.name = key}) + " " + train::to_string(train::Measure{.value = value});
      between = "  ";
    }
    return text;
  }

  double seconds_of_step() const {
    const double all = std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
    return seconds_.empty() ? 0 : all / static_cast<double>(seconds_.size());
  }

  train::Progress progress() {
    train::Progress progress{.step = step_, .steps = 0, .loss = loss_.value()};
    if (!configuration_) return progress;
    const double seconds = seconds_of_step();
    progress.steps = configuration_->steps;
    progress.seconds_left = seconds * static_cast<double>(std::max<int64_t>(0, progress.steps - step_));
    if (seconds > 0) progress.samples_per_second = static_cast<double>(configuration_->configuration.batch) / seconds;
    return progress;
  }

  /// The state of the run in one line; without its length if that is unknown.
  std::string progress_text(int columns) {
    const train::Progress now = progress();
    if (now.steps == 0) return "step " + std::to_string(now.step) + (now.loss ? "  loss " + fixed(*now.loss, 4) : "");
    return columns > 0 ? train::progress_bar(now, columns) : train::progress_line(now);
  }

  std::string waiting_text() const {
    const double age = metrics_.age().value_or(0);
    return age < std::max(kLongWait, kLongSteps * seconds_of_step()) ? "" : "  no step for " + train::clock_time(age);
  }

  void show() {
    const int columns = screen_.columns();
    const std::string waiting = waiting_text();
    const Clock::time_point now = Clock::now();
    if (columns > 0) {
      screen_.out << '\r' << progress_text(columns - static_cast<int>(waiting.size())) << waiting << "\x1b[K"
                  << std::flush;
      is_line_open_ = true;
      return;
    }
    const bool begins_to_wait = !waiting.empty() && !waits_;
    const bool is_due = !printed_ || now - *printed_ >= (is_news_ ? kBetweenLines : kBetweenWaits);
    waits_ = !waiting.empty();
    if (!begins_to_wait && !(is_due && (is_news_ || waits_))) return;
    say(progress_text(0) + waiting);
    printed_ = now;
    is_news_ = false;
  }

  void finish() {
    if (step_ > 0) end_line_with(progress_text(screen_.columns()));
    const nlohmann::ordered_json summary = train::read_json(folder_ / train::kSummary);
    if (!summary.is_object()) {
      const std::string place = folder_.string();
      const auto beginning = train::read_beginning(folder_);
      const std::string way = train::way_to_resume(place, beginning ? beginning->configuration.task : "");
      throw Error(place + ": the run has ended at step " + std::to_string(step_) + " without a result" +
                  (train::has_checkpoint(folder_) ? "; continue with: " + way : ""));
    }
    std::string text = "finished";
    for (const auto& [key, value] : summary.items())
      if (key.starts_with("test_") && value.is_number())
        text +=
            "  " + train::spoken({.name = key}) + " " + train::to_string(train::Measure{.value = value.get<double>()});
    say(text);
  }

  void end_line_with(const std::string& text) {
    if (screen_.columns() > 0)
      screen_.out << '\r' << text << "\x1b[K" << std::endl;
    else
      screen_.out << text << std::endl;
    is_line_open_ = false;
  }

  void say(const std::string& text) {
    end_line();
    screen_.out << printable(text) << std::endl;
  }
  void say_once(const std::string& text) {
    if (said_ != text) say(text);
    said_ = text;
  }

  const fs::path folder_;
  const WatchScreen& screen_;
  GrowingFile metrics_;
  train::MetricsLine line_;
  bool is_first_look_ = true, is_line_open_ = false, is_news_ = false, waits_ = false;
  int64_t step_ = 0;
  train::SmoothedLoss loss_;
  std::deque<double> seconds_;  // of the last steps
  std::optional<train::RunBeginning> configuration_;
  std::optional<Clock::time_point> printed_;
  std::string said_;
};

/// The folder in which a folder is or would be: of "runs/a/" as of "runs/a" it is "runs".
fs::path parent_of(const fs::path& folder) {
  const fs::path place = fs::absolute(folder);
  return (place.has_filename() ? place : place.parent_path()).parent_path();
}

}  // namespace

void watch(const std::string& folder, const WatchScreen& screen) {
  require(!folder.empty(), "the name of a folder is empty");
  const bool may_begin = train::on_disk([&] {
    if (fs::exists(folder)) return fs::is_directory(folder) && fs::is_empty(folder);
    return fs::is_directory(parent_of(folder));
  });
  if (!may_begin) check_is_run(folder);
  int signal = 0;
  {
    const train::InterruptGuard guard("");
    Watch watch(folder, screen);
    while (watch.look() && !train::interrupted()) std::this_thread::sleep_for(kBetweenLooks);
    watch.end_line();
    if (train::interrupted()) signal = train::interrupting_signal();
  }
  if (signal != 0) std::raise(signal);  // ends the program as if it had not been caught
}

void watch(const std::string& folder) {
  watch(folder, {std::cout, [] { return terminal_can_redraw() ? terminal_columns(STDOUT_FILENO) : 0; }});
}

}  // namespace adjoin::report
