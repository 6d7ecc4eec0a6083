#include "adjoin/lab/measure/timing.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

namespace adjoin::measure {

namespace {

using Clock = std::chrono::steady_clock;

/// A contender while it is measured. Its times are the same on all ranks, and so is all that depends on them.
class Measurement {
 public:
  Measurement(const Communicator& world, const Contender& contender, const Effort& effort, bool is_alone)
      : world_(world), contender_(contender), effort_(effort), is_alone_(is_alone) {
    times_.parts.resize(contender.parts.size());
    if (effort.turn_seconds > 0) adapt(total(turn()));
  }

  void take_turn() {
    const auto turns = static_cast<int>(times_.all.size());
    if (turns >= effort_.least_turns && spent_ > effort_.seconds) return;
    const std::vector<double> seconds = turn();
    for (size_t part = 0; part < seconds.size(); ++part) times_.parts[part].push_back(seconds[part]);
    times_.all.push_back(total(seconds));
    spent_ += times_.all.back() * calls_;
    if (effort_.turn_seconds > 0) adapt(times_.all.back());
  }

  const Times& times() const { return times_; }

 private:
  /// The seconds of each part of a call, on the rank where it took longest.
  std::vector<double> turn() {
    if (effort_.lets_threads_sleep && !is_alone_) let_threads_sleep(world_);
    if (contender_.begin) contender_.begin();
    if (!is_alone_)
      for (size_t part = 0; part < contender_.parts.size(); ++part) call(part);
    std::vector<double> seconds(contender_.parts.size());
    world_.barrier();
    auto begin = Clock::now();
    for (int i = 1; i <= calls_; ++i)
      for (size_t part = 0; part < seconds.size(); ++part) {
        call(part);
        if (seconds.size() == 1 && i < calls_) continue;
        world_.barrier();
        const auto end = Clock::now();
        seconds[part] += std::chrono::duration<double>(end - begin).count() / calls_;
        begin = end;
      }
    if (contender_.end) contender_.end();
    world_.all_reduce(buffer(seconds), Reduction::max);
    return seconds;
  }

  void call(size_t part) const {
    if (contender_.parts[part]) contender_.parts[part]();
  }

  static double total(const std::vector<double>& seconds) {
    double total = 0;
    for (const double of_part : seconds) total += of_part;
    return total;
  }

  /// A call that another program slows down ten thousand times must not be repeated as often.
  void adapt(double seconds) {
    calls_ = static_cast<int>(std::clamp(effort_.turn_seconds / seconds, 1.0, double(effort_.most_calls)));
  }

  const Communicator& world_;
  const Contender& contender_;
  const Effort effort_;
  const bool is_alone_;
  int calls_ = 1;
  double spent_ = 0;
  Times times_;
};

}  // namespace

std::vector<Times> time_in_turns(const Communicator& world, std::span<const Contender> contenders,
                                 const Effort& effort) {
  std::vector<Measurement> all;
  for (const Contender& contender : contenders) all.emplace_back(world, contender, effort, contenders.size() == 1);
  for (int turn = 0; turn < effort.turns; ++turn)
    for (Measurement& measurement : all) measurement.take_turn();
  std::vector<Times> times;
  for (const Measurement& measurement : all) times.push_back(measurement.times());
  return times;
}

double median_seconds(int64_t times, const Communicator& world, const std::function<void()>& work) {
  const Contender contender{{work}};
  return median(
      time_in_turns(
          world, {&contender, 1},
          {.turns = static_cast<int>(times), .seconds = std::numeric_limits<double>::infinity(), .turn_seconds = 0})[0]
          .all);
}

void let_threads_sleep(const Communicator& world) {
  world.barrier();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  world.barrier();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double median_ratio(std::span<const double> a, std::span<const double> b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) ratios.push_back(a[i] / b[i]);
  return median(ratios);
}

}  // namespace adjoin::measure
