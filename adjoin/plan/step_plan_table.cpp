#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "adjoin/base/text.hpp"
#include "adjoin/plan/step_plan.hpp"
#include "adjoin/store/messages.hpp"

namespace adjoin::plan {

using namespace train;

namespace {

/// The number of a plan's calls, of messages instead of exchanges, and their bytes, by size of the group and kind of call.
using CallSums = std::map<std::pair<int, std::optional<Collective>>, std::pair<int64_t, int64_t>>;

CallSums sums_of_calls(const RankPlan& plan) {
  CallSums sums;
  for (const PlannedCall& call : plan.calls) {
    auto& [count, bytes] = sums[{call.ranks, call.collective}];
    count += call.messages;
    bytes += call.bytes;
  }
  return sums;
}

std::string operation_of(const CallSums::value_type& sum) {
  return sum.first.second ? std::string(name(*sum.first.second)) : "messages";
}

/// The largest needs of ranks whose parts have equal sizes.
struct AlikeRanks {
  std::vector<int> ranks;
  RankPlan most;
  CallSums calls;

  explicit AlikeRanks(const RankPlan& plan) : ranks{plan.rank}, most(plan), calls(sums_of_calls(plan)) {}
  /// Adds the other rank if it has the same stages, number of parameters and calls, and returns whether it has; rows may
  /// differ, if both have some.
  bool takes(const AlikeRanks& other) {
    const auto has_same_number = [](const auto& a, const auto& b) {
      return a.first == b.first && a.second.first == b.second.first;
    };
    if (most.pp != other.most.pp || most.parameters != other.most.parameters ||
        (most.rows == 0) != (other.most.rows == 0) ||
        !std::equal(calls.begin(), calls.end(), other.calls.begin(), other.calls.end(), has_same_number))
      return false;
    ranks.push_back(other.most.rank);
    for (auto& [what, sum] : calls) sum.second = std::max(sum.second, other.calls.at(what).second);
    for (int64_t RankPlan::*number :
         {&RankPlan::moments, &RankPlan::activations, &RankPlan::checkpoint_copies, &RankPlan::highest})
      most.*number = std::max(most.*number, other.most.*number);
    return true;
  }
};

std::vector<AlikeRanks> alike(std::span<const RankPlan> plans) {
  std::vector<AlikeRanks> all;
  for (const RankPlan& plan : plans) {
    const AlikeRanks mine(plan);
    if (std::any_of(all.begin(), all.end(), [&](AlikeRanks& group) { return group.takes(mine); })) continue;
    all.push_back(mine);
  }
  return all;
}

/// Prints an indented table: its first column is aligned left, the others right.
void print_columns(std::ostream& out, std::vector<std::vector<std::string>> table) {
  for (auto& line : table) line.front().insert(0, "  ");
  out << table_text(table, "lr");
}

/// The unit that suits the largest number of a table.
struct Unit {
  const char* name;
  double bytes;
  explicit Unit(int64_t largest)
      : name(largest < 1 << 20                ? "KiB"
             : largest < int64_t{10000} << 20 ? "MiB"
                                              : "GiB"),
        bytes(largest < 1 << 20                ? 1 << 10
              : largest < int64_t{10000} << 20 ? 1 << 20
                                               : 1 << 30) {}
  std::string operator()(int64_t number) const { return fixed(static_cast<double>(number) / bytes, 1); }
};

}  // namespace

nlohmann::ordered_json to_json(std::span<const RankPlan> plans) {
  using Json = nlohmann::ordered_json;
  Json ranks = Json::array();
  for (const RankPlan& plan : plans) {
    Json calls = Json::array();
    for (const auto& of_kind : sums_of_calls(plan))
      calls.push_back({{"operation", operation_of(of_kind)},
                       {"ranks", of_kind.first.first},
                       {"calls", of_kind.second.first},
                       {"bytes", of_kind.second.second}});
    ranks.push_back({{"rank", plan.rank},
                     {"parameters", plan.parameters},
                     {"weight_bytes", plan.weights},
                     {"gradient_bytes", plan.gradients},
                     {"moment_bytes", plan.moments},
                     {"activation_bytes", plan.activations},
                     {"peak_memory_bytes", plan.highest},
                     {"checkpoint_bytes", plan.checkpoint_copies},
                     {"calls", std::move(calls)}});
  }
  return ranks;
}

void print_plan(std::ostream& out, std::span<const RankPlan> plans, int64_t of_full_experts) {
  const std::vector<AlikeRanks> groups = alike(plans);
  int64_t largest = 0, most_copied = 0, most_given = 0;
  for (const AlikeRanks& group : groups) {
    largest = std::max(largest, group.most.highest);
    most_copied = std::max(most_copied, group.most.checkpoint_copies);
    for (const auto& [what, sum] : group.calls) most_given = std::max(most_given, sum.second);
  }
  const Unit memory(largest), given(most_given);
  std::vector<std::vector<std::string>> table{
      {"ranks", "parameters", "weights", "gradients", "moments", "activations", "highest"}};
  for (const AlikeRanks& group : groups) {
    const RankPlan& most = group.most;
    table.push_back({short_ranges_text(group.ranks), grouped(most.parameters), memory(most.weights),
                     memory(most.gradients), memory(most.moments), memory(most.activations), memory(most.highest)});
  }
  out << "\nmemory of a rank's tensors in a step, to within a tenth, in " << memory.name << '\n';
  print_columns(out, table);
  if (most_copied > 0)
    out << "  and " << memory(most_copied) << " more while a checkpoint is written, or none with --save wait\n";
  if (of_full_experts > largest)
    out << "  and up to " << memory(of_full_experts) << " on a rank if its experts get the tokens of all ranks\n";
  if (most_given == 0) return;
  table = {{"ranks", "operation", "ranks in it", "calls", "bytes given"}};
  for (const AlikeRanks& group : groups)
    for (const auto& of_kind : group.calls)
      table.push_back({of_kind == *group.calls.begin() ? short_ranges_text(group.ranks) : "", operation_of(of_kind),
                       std::to_string(of_kind.first.first), grouped(of_kind.second.first),
                       given(of_kind.second.second)});
  out << "\ncollective operations of a step, and what a rank gives to all of them, in " << given.name << '\n';
  print_columns(out, table);
}

}  // namespace adjoin::plan
