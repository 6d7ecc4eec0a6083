#include "adjoin/lab/trial.hpp"

#include <algorithm>
#include <atomic>
#include <tuple>

#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/algorithm/perform.hpp"
#include "adjoin/lab/measure/timing.hpp"

namespace adjoin::lab {

namespace {

/// The memory and the program of one rank.
struct Bench {
  algorithm::Program program;
  Elements input, output;

  void run(const Communicator& world, const Exercise& exercise) {
    algorithm::run(program, *world.backend(),
                   {.collective = exercise.collective,
                    .name = name(exercise.collective),
                    .in = input.buffer(),
                    .out = output.buffer(),
                    .counts = exercise.blocks,
                    .reduction = exercise.reduction,
                    .root = exercise.root,
                    .rank = world.rank(),
                    .size = world.size()});
  }
};

/// The steps of a program, counted from 1, in which its rank sends or receives: its n-th exchange belongs to the n-th of them.
std::vector<int64_t> steps_with_messages(const algorithm::Program& program) {
  std::vector<int64_t> steps;
  for (size_t i = 0; i < program.steps.size(); ++i)
    if (!program.steps[i].transfers.empty()) steps.push_back(static_cast<int64_t>(i) + 1);
  return steps;
}

/// Sets the step of each message to that of its sender's program, and sorts the messages by these steps.
void name_steps(Recording& recording, const std::vector<Bench>& benches) {
  std::vector<std::vector<int64_t>> steps;
  for (const Bench& bench : benches) steps.push_back(steps_with_messages(bench.program));
  for (RecordedMessage& message : recording.messages)
    message.step = steps[static_cast<size_t>(message.from)][static_cast<size_t>(message.place_sent) - 1];
  std::stable_sort(recording.messages.begin(), recording.messages.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.from, a.to) < std::tie(b.step, b.from, b.to);
  });
}

double measured_seconds(std::vector<Bench>& benches, const Exercise& exercise) {
  const auto ranks = static_cast<int>(benches.size());
  double seconds = 0;
  launch_threads(ranks, [&](const Communicator& world) {
    const measure::Contender run{{[&] { benches[static_cast<size_t>(world.rank())].run(world, exercise); }}};
    const auto times = measure::time_in_turns(world, {&run, 1}, {.turns = ranks <= 64 ? 5 : 1, .turn_seconds = 0});
    if (world.rank() == 0) seconds = measure::median(times[0].all);
  });
  return seconds;
}

}  // namespace

Trial try_out(const Exercise& exercise, std::string_view algorithm) {
  const algorithm::Request request = request_of(exercise);
  std::vector<Bench> benches;
  for (int r = 0; r < request.size; ++r)
    benches.push_back({program_of(request, algorithm, r), input_of(exercise, r), output_before(exercise, r)});

  Trial trial;
  std::atomic<int> arrived = 0;
  std::atomic<bool> is_wrong = false;
  trial.recording = record(request.size, [&](const Communicator& world) {
    Bench& mine = benches[static_cast<size_t>(world.rank())];
    ++arrived;
    mine.run(world, exercise);
    if (exercise.collective == Collective::barrier && arrived < request.size) is_wrong = true;
    if (mine.output != output_after(exercise, world.rank())) is_wrong = true;
  });
  trial.is_right = !is_wrong;
  trial.steps = static_cast<int64_t>(benches[0].program.steps.size());
  for (const Bench& bench : benches) trial.held.push_back(bench.output.values());
  name_steps(trial.recording, benches);
  trial.seconds = measured_seconds(benches, exercise);
  return trial;
}

}  // namespace adjoin::lab
