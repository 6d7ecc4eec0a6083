#include "tests/support/programs/program.hpp"

#include <algorithm>
#include <string_view>

namespace adjoin::testing::programs {

namespace {

template <class Numbers>
std::string list_of(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "{" + text + "}";
}

std::string arguments_of(const Step& step) {
  const std::string type(adjoin::name(step.type));
  switch (step.kind) {
    case Kind::barrier:
    case Kind::deterministic:
      return "";
    case Kind::message:
      return std::to_string(step.from) + " to " + std::to_string(step.to) + ", tag " + std::to_string(step.tag) + ", " +
             type + " x " + list_of(step.counts);
    case Kind::ring:
      return "to the rank " + std::to_string(step.shift) + " after, tag " + std::to_string(step.tag) + ", " + type +
             " x " + list_of(step.counts);
    case Kind::split:
      return "colors and keys " + list_of(step.ranks) + ", makes group " + std::to_string(step.made) + " …";
    case Kind::with_algorithm:
      return std::string(adjoin::name(step.collective)) + ", " + step.algorithm + ", chunk " +
             std::to_string(step.chunk) + ", makes group " + std::to_string(step.made);
    case Kind::subset:
      return "ranks " + list_of(step.ranks) + ", makes group " + std::to_string(step.made);
    case Kind::stream:
    case Kind::start_thread:
      return "makes group " + std::to_string(step.made);
    case Kind::join_thread:
      return "of group " + std::to_string(step.made);
    case Kind::wait:
      return "for step " + std::to_string(step.target);
    case Kind::sleep:
      return std::to_string(step.shift) + " ms on rank " + std::to_string(step.root);
    case Kind::fail:
      return "exception " + std::to_string(step.shift);
    default:
      return (has_root(step.kind) ? "root " + std::to_string(step.root) + ", " : "") +
             (has_reduction(step.kind) ? std::string(adjoin::name(step.reduction)) + ", " : "") + type + " x " +
             list_of(step.counts) + (step.is_in_place ? ", in place" : "") + (step.overlaps ? ", overlapping" : "");
  }
}

std::string describe(const Group& group, size_t number) {
  return "  group " + std::to_string(number) + ": ranks " + list_of(group.members) +
         (group.parent < 0 ? "" : " of group " + std::to_string(group.parent)) + (group.is_stream ? ", a stream" : "") +
         (group.lane > 0 ? ", of helper thread " + std::to_string(group.lane) : "") + "\n";
}

}  // namespace

std::string name(Kind kind) {
  constexpr std::string_view others[] = {"message",        "ring",          "exchange", "split",        "subset",
                                         "with_algorithm", "deterministic", "stream",   "start_thread", "join_thread",
                                         "wait",           "sleep",         "fail"};
  if (is_collective(kind)) return std::string(adjoin::name(static_cast<Collective>(kind)));
  return std::string(others[static_cast<int>(kind) - kCollectives]);
}

int Group::rank_of(int world_rank) const {
  const auto found = std::find(members.begin(), members.end(), world_rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

bool Program::takes(int world_rank, const Step& step) const {
  const int rank = group_of(step).rank_of(world_rank);
  if (rank < 0) return false;
  if (step.kind == Kind::message) return rank == step.from || rank == step.to;
  if (step.kind == Kind::sleep) return rank == step.root;
  if (step.kind == Kind::subset) return std::find(step.ranks.begin(), step.ranks.end(), rank) != step.ranks.end();
  return true;
}

int64_t& count_between(Step& step, int size, int from, int to) {
  return step.counts[static_cast<size_t>(from * size + to)];
}
int64_t count_between(const Step& step, int size, int from, int to) {
  return step.counts[static_cast<size_t>(from * size + to)];
}

std::string describe(const Step& step) {
  return std::to_string(step.id) + ": " + name(step.kind) + "(" + arguments_of(step) + ") on group " +
         std::to_string(step.group) + (step.is_in_run ? ", by run" : "");
}

std::string describe(const Program& program) {
  std::string text = "seed " + std::to_string(program.seed) + " on " + std::to_string(program.ranks()) + " ranks\n";
  for (size_t i = 0; i < program.groups.size(); ++i) text += describe(program.groups[i], i);
  for (const Step& step : program.steps) text += "  step " + describe(step) + "\n";
  return text;
}

}  // namespace adjoin::testing::programs
