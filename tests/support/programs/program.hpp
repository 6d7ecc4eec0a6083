#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/base/element_type.hpp"
#include "adjoin/base/reduction.hpp"
#include "adjoin/comm/contract/collective.hpp"

/// Programs of communication as data: drawn from a seed, run on workers, judged by plain loops, and printed.
namespace adjoin::testing::programs {

enum class Kind : uint8_t {
  barrier,  // as Collective
  broadcast,
  reduce,
  all_reduce,
  gather,
  scatter,
  all_gather,
  reduce_scatter,
  all_to_all,
  message,   // `from` sends, `to` receives
  ring,      // each sends to the rank `shift` after it
  exchange,  // a message to each rank to which `counts` has one
  split,     // makes the groups `made`, `made` + 1 …, one a color
  subset,
  with_algorithm,
  deterministic,
  stream,        // an AsyncCommunicator
  start_thread,  // each rank's helper thread, which gets a group of its own
  join_thread,
  wait,   // for the operation of step `target`
  sleep,  // for `shift` milliseconds on rank `root`
  fail,   // the exception `shift`
};

inline constexpr int kCalls = 12;  // the kinds that move data, the first of all
constexpr bool is_collective(Kind kind) {
  return static_cast<int>(kind) < kCollectives;
}
constexpr bool is_call(Kind kind) {
  return static_cast<int>(kind) < kCalls;
}
constexpr bool has_root(Kind kind) {
  return is_collective(kind) && adjoin::has_root(static_cast<Collective>(kind));
}
constexpr bool has_reduction(Kind kind) {
  return is_collective(kind) && adjoin::has_reduction(static_cast<Collective>(kind));
}

/// Whether a call has a count of each rank.
constexpr bool is_per_rank(Kind kind) {
  return kind == Kind::gather || kind == Kind::scatter || kind == Kind::all_gather || kind == Kind::reduce_scatter;
}

std::string name(Kind kind);

/// One step, as all ranks of its group take it; ranks are those of the group.
struct Step {
  Kind kind = Kind::barrier;
  int id = 0;     // in its program; what ranks give is a function of it
  int group = 0;  // of Program::groups

  int root = 0;
  ElementType type = ElementType::int32;
  Reduction reduction = Reduction::sum;
  /// One for all ranks; or of each rank; or, of all_to_all and exchange, of each pair, a row a sender (-1: no message).
  std::vector<int64_t> counts = {};
  int from = 0, to = 0, shift = 1, tag = 0;
  bool is_in_place = false;
  bool overlaps = false;   // `in` and `out` begin at the same element, where they may not
  bool is_in_run = false;  // on a stream, by AsyncCommunicator::run

  std::vector<int> ranks = {};  // the members of a subset; the colors of a split, and then the keys
  int made = -1;                // the first group that the step makes, or whose thread it joins
  Collective collective = {};   // with_algorithm
  std::string algorithm = {};   // with_algorithm
  int64_t chunk = 0;            // with_algorithm
  int target = -1;              // wait
};

struct Group {
  std::vector<int> members = {};  // ranks of the world, in the group's order
  int parent = -1;                // the group that it was made from
  int same = 0;                   // the group whose calls it shares: itself, unless it was made by with_algorithm
  int lane = 0;                   // the thread of each member that uses it; 0 is the rank's own
  bool is_stream = false;
  unsigned in_steps = 0;  // a bit for each collective that goes by an algorithm of the catalogue

  int size() const { return static_cast<int>(members.size()); }
  /// The rank in the group of a rank of the world; -1 where it is no member.
  int rank_of(int world_rank) const;
};

struct Program {
  uint64_t seed = 0;
  std::vector<Group> groups = {};  // the world is the first
  std::vector<Step> steps = {};    // in one order that all ranks keep
  bool wraps_errors = false;       // what a rank is told of others' failures it throws as an exception of its own

  int ranks() const { return groups[0].size(); }
  const Group& group_of(const Step& step) const { return groups[static_cast<size_t>(step.group)]; }
  /// Whether a rank of the world takes this step.
  bool takes(int world_rank, const Step& step) const;
};

/// The counts between two ranks of an all_to_all or exchange on `size`.
int64_t& count_between(Step& step, int size, int from, int to);
int64_t count_between(const Step& step, int size, int from, int to);

/// "all_reduce(sum, int32 x 5) on group 2".
std::string describe(const Step& step);
/// The groups and the steps, a line each.
std::string describe(const Program& program);

}  // namespace adjoin::testing::programs
