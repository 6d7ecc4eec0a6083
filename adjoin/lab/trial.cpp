#include "adjoin/lab/trial.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <tuple>

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::lab {

namespace {

using algorithm::Program;
using Values = std::vector<int64_t>;

/// The steps of a program, counted from 1, in which its rank sends or receives: its n-th exchange is of the n-th of them.
std::vector<int64_t> steps_with_messages(const Program& program) {
  std::vector<int64_t> steps;
  for (size_t i = 0; i < program.steps.size(); ++i)
    if (!program.steps[i].transfers.empty()) steps.push_back(static_cast<int64_t>(i) + 1);
  return steps;
}

template <class T>
class Workbench {
 public:
  Workbench(const Exercise& exercise, std::string_view algorithm)
      : request_(exercise.request), type_(exercise.type), ranks_(static_cast<size_t>(exercise.request.size)) {
    for (int r = 0; r < request_.size; ++r) {
      Rank& rank = ranks_[static_cast<size_t>(r)];
      rank.program = program_of(request_, algorithm, r);
      rank.input = of_type(input_of(request_, r));
      rank.output = of_type(output_before(request_, r));
    }
  }

  Trial run() {
    Trial trial;
    trial.recording = record(request_.size, [&](const Communicator& world) {
      carry_out(world);
      const Rank& mine = ranks_[static_cast<size_t>(world.rank())];
      if (request_.collective == Collective::barrier && arrived_.load() < request_.size) wrong_.store(true);
      if (mine.output != of_type(output_after(request_, world.rank()))) wrong_.store(true);
    });
    trial.is_right = !wrong_.load();
    trial.steps = static_cast<int64_t>(ranks_[0].program.steps.size());
    for (const Rank& rank : ranks_) trial.held.emplace_back(rank.output.begin(), rank.output.end());
    name_steps(trial.recording);
    trial.seconds = measure();
    return trial;
  }

 private:
  struct Rank {
    Program program;
    std::vector<T> input, output;
  };

  static std::vector<T> of_type(const Values& values) {
    std::vector<T> typed;
    for (const int64_t value : values) typed.push_back(static_cast<T>(value));
    return typed;
  }

  void carry_out(const Communicator& world) {
    Rank& mine = ranks_[static_cast<size_t>(world.rank())];
    arrived_.fetch_add(1);
    run_program(mine, *world.backend());
  }

  void run_program(Rank& rank, Backend& backend) const {
    const Buffer output{rank.output.data(), static_cast<int64_t>(rank.output.size()), type_};
    const ConstBuffer input{rank.input.data(), static_cast<int64_t>(rank.input.size()), type_};
    algorithm::run(rank.program, backend,
                   {.collective = request_.collective,
                    .name = name(request_.collective),
                    .in = input,
                    .out = output,
                    .counts = request_.counts,
                    .root = request_.root,
                    .rank = backend.rank(),
                    .size = backend.size()});
  }

  void name_steps(Recording& recording) const {
    std::vector<std::vector<int64_t>> steps;
    for (const Rank& rank : ranks_) steps.push_back(steps_with_messages(rank.program));
    for (RecordedMessage& message : recording.messages)
      message.step = steps[static_cast<size_t>(message.from)][static_cast<size_t>(message.place_sent) - 1];
    std::stable_sort(recording.messages.begin(), recording.messages.end(),
                     [](const RecordedMessage& a, const RecordedMessage& b) {
                       return std::tie(a.step, a.from, a.to) < std::tie(b.step, b.from, b.to);
                     });
  }

  double measure() {
    const int runs = request_.size <= 64 ? 5 : 1;
    std::vector<double> seconds;
    launch_threads(request_.size, [&](const Communicator& world) {
      for (int i = 0; i < runs; ++i) {
        world.barrier();
        const auto begin = std::chrono::steady_clock::now();
        run_program(ranks_[static_cast<size_t>(world.rank())], *world.backend());
        double elapsed[] = {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
        world.all_reduce(buffer(elapsed), Reduction::max);
        if (world.rank() == 0) seconds.push_back(elapsed[0]);
      }
    });
    std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
    return seconds[static_cast<size_t>(runs / 2)];
  }

  const algorithm::Request& request_;
  const ElementType type_;
  std::vector<Rank> ranks_;
  std::atomic<int> arrived_ = 0;
  std::atomic<bool> wrong_ = false;
};

}  // namespace

Trial try_out(const Exercise& exercise, std::string_view algorithm) {
  if (exercise.type == ElementType::uint8) return Workbench<uint8_t>(exercise, algorithm).run();
  return Workbench<int32_t>(exercise, algorithm).run();
}

}  // namespace adjoin::lab
