// A broadcast of your own, written with send and recv, under the recorder of the lab, which distinguishes the right tree
// from one that misses ranks and from one that never ends.

#include <bit>
#include <cstdint>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/recording.hpp"
#include "examples/support/example.hpp"

using adjoin::Communicator;
using adjoin::example::ensure;
using adjoin::example::Options;
using adjoin::example::Report;
using adjoin::lab::Recording;

namespace {

using Broadcast = void (*)(const Communicator& world, std::vector<float>& values);

/// From rank 0 by a binomial tree: in each round every rank that has the values sends them to one that has not.
void tree(const Communicator& world, std::vector<float>& values) {
  const int rank = world.rank(), size = world.size();
  for (int holders = 1; holders < size; holders *= 2) {
    if (rank < holders && rank + holders < size) world.send(adjoin::const_buffer(values), rank + holders);
    if (rank >= holders && rank < 2 * holders) world.recv(adjoin::buffer(values), rank - holders);
  }
}

/// Wrong: it rounds the number of rounds down, and has too few where the number of ranks is no power of two.
void forgetful_tree(const Communicator& world, std::vector<float>& values) {
  const int rank = world.rank(), size = world.size();
  for (int holders = 1; 2 * holders <= size; holders *= 2) {
    if (rank < holders) world.send(adjoin::const_buffer(values), rank + holders);
    if (rank >= holders && rank < 2 * holders) world.recv(adjoin::buffer(values), rank - holders);
  }
}

/// Wrong: every rank but the root passes the values on before it has them, so all send and nobody receives.
void impatient_ring(const Communicator& world, std::vector<float>& values) {
  const int rank = world.rank(), size = world.size();
  world.send(adjoin::const_buffer(values), (rank + 1) % size);
  world.recv(adjoin::buffer(values), (rank + size - 1) % size);
}

struct Outcome {
  Recording recording;
  std::vector<int> without;  // ranks that do not hold the root's values afterwards
};

Outcome try_out(Broadcast broadcast, int ranks) {
  std::vector<int> holds(static_cast<size_t>(ranks));  // one element per rank, so that no two ranks write to the same
  Outcome outcome;
  outcome.recording = adjoin::lab::record(ranks, [&](const Communicator& world) {
    std::vector<float> values(4, world.rank() == 0 ? 3.5f : 0.0f);
    broadcast(world, values);
    holds[static_cast<size_t>(world.rank())] = values == std::vector<float>(4, 3.5f);
  });
  for (int rank = 0; rank < ranks; ++rank)
    if (!holds[static_cast<size_t>(rank)]) outcome.without.push_back(rank);
  return outcome;
}

/// Whether this is a broadcast by a tree: all ranks have the values, each rank but the root received once, and the last
/// message is in step ceil(log2 ranks).
bool is_right(const Outcome& outcome) {
  int rounds = 0;
  while (1 << rounds < outcome.recording.ranks) ++rounds;
  bool right = outcome.without.empty() && outcome.recording.steps() == rounds;
  for (int rank = 0; rank < outcome.recording.ranks; ++rank)
    right = right && outcome.recording.received_by(rank) == (rank == 0 ? 0 : 1);
  return right && outcome.recording.sent_by(0) == rounds;
}

void show(const char* name, const Outcome& outcome, Report& report) {
  std::string messages = describe(outcome.recording);
  if (!messages.empty()) messages.pop_back();  // the end of the last line
  report.line("%s on %d ranks:\n%s", name, outcome.recording.ranks, messages.c_str());
  for (const int rank : outcome.without)
    report.line("rank %d does not have the values: it received %ld messages", rank,
                static_cast<long>(outcome.recording.received_by(rank)));
  report.line("%s\n", is_right(outcome) ? "This is right." : "This is wrong.");
}

void try_the_trees(int ranks, Report& report) {
  for (int few = 1; few <= 17; ++few) ensure(is_right(try_out(tree, few)), "the tree must be right");
  show("The tree", try_out(tree, ranks), report);

  // A test with powers of two only would not have found this mistake.
  for (const int power : {1, 2, 4, 8}) ensure(is_right(try_out(forgetful_tree, power)), "wrong too soon");
  const Outcome forgetful = try_out(forgetful_tree, ranks);
  show("The forgetful tree", forgetful, report);
  std::vector<int> forgotten;
  for (int rank = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))); rank < ranks; ++rank)
    forgotten.push_back(rank);
  ensure(forgetful.without == forgotten, "the ranks from the last power of two on are forgotten");
  report.value("forgotten_by_the_forgetful_tree", static_cast<int64_t>(forgotten.size()));
}

void try_the_ring(Report& report) {
  try {
    try_out(impatient_ring, 3);
  } catch (const adjoin::CommunicationError& error) {
    report.line("The impatient ring on 3 ranks:\n%s", error.what());
    report.value("impatient_ring", std::string(error.what()));
    return;
  }
  throw adjoin::InternalError("the impatient ring ended, expected a deadlock");
}

}  // namespace

int main(int argc, char** argv) {
  const adjoin::example::About about{"A right tree, one that forgets ranks, and a ring that never ends.", 6,
                                     /*threads_only=*/true};
  return run_with(argc, argv, about, [](const Options& options, Report& report) {
    try_the_trees(options.ranks, report);
    try_the_ring(report);
  });
}
