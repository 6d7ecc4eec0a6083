#include "adjoin/lab/measure/timing.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace adjoin::measure {

namespace {

using Clock = std::chrono::steady_clock;

/// A block is as long as this, so that neither the clock nor the meetings around it matter.
constexpr double kBlockMicroseconds = 500;

/// Microseconds for one of `calls` calls, from when the first rank begins until the last has ended.
double time_block(const Communicator& world, const Call& call, int calls) {
  call();
  world.barrier();
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  world.barrier();
  double slowest[] = {std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls};
  world.all_reduce(buffer(slowest), Reduction::max);
  return slowest[0];
}

/// One contender while it is measured. Times are the same on all ranks, and so is what follows from them.
class Contender {
 public:
  Contender(const Communicator& world, const Call& call, const Effort& effort)
      : world_(world), call_(call), effort_(effort) {
    time_block(world, call, 1);  // touches memory, opens connections
    adapt(time_block(world, call, 3));
  }

  void run_block() {
    const auto blocks = static_cast<int>(times_.size());
    if (blocks >= effort_.most_blocks || (blocks >= effort_.least_blocks && spent_ > 1e6 * effort_.seconds)) return;
    times_.push_back(time_block(world_, call_, calls_));
    spent_ += times_.back() * calls_;
    adapt(times_.back());
  }

  const std::vector<double>& times() const { return times_; }

 private:
  /// A call that another program slows down ten thousand times must not be made as often.
  void adapt(double microseconds) {
    calls_ = static_cast<int>(std::clamp(kBlockMicroseconds / microseconds, 1.0, double(effort_.most_calls)));
  }

  const Communicator& world_;
  const Call& call_;
  Effort effort_;
  int calls_ = 1;
  double spent_ = 0;
  std::vector<double> times_;
};

}  // namespace

std::vector<std::vector<double>> time_blocks(const Communicator& world, std::span<const Call> contenders,
                                             const Effort& effort) {
  std::vector<Contender> all;
  for (const Call& call : contenders) all.emplace_back(world, call, effort);
  for (int block = 0; block < effort.most_blocks; ++block)
    for (Contender& contender : all) contender.run_block();
  std::vector<std::vector<double>> times;
  for (const Contender& contender : all) times.push_back(contender.times());
  return times;
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

}  // namespace adjoin::measure
