#include "adjoin/train/step_plan.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/grid_sizes.hpp"
#include "adjoin/train/messages.hpp"
#include "adjoin/train/optimizer.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::train {
namespace {

/// The most bytes at once while micro-batches go forward and back, one after another: activations are there from forward
/// until backward has passed their segment, and gradients from then on.
class MemoryWalk {
 public:
  explicit MemoryWalk(int64_t before) : live_(before), highest_(before) {}

  /// `needs` has those of each segment.
  void micro_batch(const std::vector<models::Segment>& segments, const std::vector<models::Needs>& needs) {
    for (const models::Needs& of_segment : needs) live_ += of_segment.kept;
    for (size_t i = segments.size(); i-- > 0;) {
      for (const at::Tensor& weight : segments[i].module->parameters())
        if (counted_.insert(weight.unsafeGetTensorImpl()).second) live_ += static_cast<int64_t>(weight.nbytes());
      highest_ = std::max(highest_, live_ + needs[i].temporary);
      live_ -= needs[i].kept;
    }
  }
  int64_t highest() const { return highest_; }

 private:
  int64_t live_, highest_;
  std::set<const c10::TensorImpl*> counted_;  // whose gradients are there
};

/// What a segment needs that keeps its input alone, and is computed again in backward.
models::Needs recomputed(models::Needs needs) {
  needs.temporary += needs.kept;  // without the input, which waits, and with an output of its size
  needs.kept = needs.input;
  models::append(needs.backward, needs.forward);
  return needs;
}

RankPlan plan_rank(const Configuration& c, const Task& task, std::span<const int64_t> samples,
                   const Communicator& world) {
  const Grid grid(world, grid_sizes(c).shape());
  const models::Model model = task.model(grid, tensor_options(c).device(at::kMeta));
  for (const models::Segment& segment : model.segments)
    require(segment.needs != nullptr, [&] { return "the model's " + segment.name + " does not say what it needs"; });
  const parallel::Optimizer optimizer = make_optimizer(c, parameters_of(*model.module, grid));
  RankPlan plan{.rank = world.rank(), .moments = optimizer.moment_bytes(), .calls = optimizer.calls()};
  for (const at::Tensor& weight : model.module->parameters()) {
    plan.parameters += weight.numel();
    plan.weights += static_cast<int64_t>(weight.nbytes());
  }
  plan.gradients = plan.weights;
  if (c.validation > 0)
    for (const nn::Parameter& kept : parameters_of(*model.module, grid))
      plan.weights += static_cast<int64_t>(kept.tensor.nbytes());

  require(!keeps_scores(c), "plan_step: the messages of --cp-method gathered are not known");
  const Communicator& dp = grid.axis("dp");
  const data::BatchPart mine = data::part_of(std::ssize(samples), dp.rank(), dp.size());
  MemoryWalk memory(plan.weights + plan.moments);
  for (int i = 0; i < c.microbatches; ++i) {
    const MicroBatch batch = part_of(
        task.micro_batch(data::Part::train, samples, data::part_of(mine, i, static_cast<int>(c.microbatches)), {}),
        model, grid.axis("cp"));
    const auto& rows = batch.context.rows;
    const models::Load load{.all = rows,
                            .rows = batch.input.size(0),
                            .samples = rows ? std::ssize(rows->lengths()) : batch.input.size(0),
                            .bytes = static_cast<int64_t>(at::elementSize(weight_type(c.precision))),
                            .product_bytes = static_cast<int64_t>(at::elementSize(product_type(c.precision)))};
    int64_t kept = 0;
    std::vector<models::Needs> needs;
    for (const models::Segment& segment : model.segments) {
      needs.push_back(segment.needs(load));
      // As models::Model does: what is before the first block needs no gradient, and the last is computed last.
      const bool is_between = needs.size() > 1 && needs.size() < model.segments.size();
      if (c.recompute == "segment" && is_between) needs.back() = recomputed(std::move(needs.back()));
      kept += needs.back().kept;
      models::append(plan.calls, needs.back().forward);
      models::append(plan.calls, needs.back().backward);
    }
    models::append(plan.calls, task.loss_calls(load, grid));
    memory.micro_batch(model.segments, needs);
    plan.rows = std::max(plan.rows, load.rows);
    plan.activations = std::max(plan.activations, kept);
  }
  plan.highest = memory.highest();
  if (world.size() > 1)  // what the step came to: Trainer::Sums
    plan.calls.push_back(
        {Collective::all_reduce, world.size(), static_cast<int64_t>(sizeof(double)) * (3 + task.tally_size())});
  return plan;
}

/// What ranks of parts of equal sizes have at most; in `calls`, by the size of the group and what they are, number and bytes.
struct AlikeRanks {
  std::vector<int> ranks;
  RankPlan most;
  std::map<std::pair<int, std::optional<Collective>>, std::pair<int64_t, int64_t>> calls;

  explicit AlikeRanks(const RankPlan& plan) : ranks{plan.rank}, most(plan) {
    for (const PlannedCall& call : plan.calls) {
      auto& [count, bytes] = calls[{call.ranks, call.collective}];
      ++count;
      bytes += call.bytes;
    }
  }
  /// Whether the other is of a rank with as many parameters that calls the same; ranks may differ in rows.
  bool takes(const AlikeRanks& other) {
    const auto has_same_number = [](const auto& a, const auto& b) {
      return a.first == b.first && a.second.first == b.second.first;
    };
    if (most.parameters != other.most.parameters ||
        !std::equal(calls.begin(), calls.end(), other.calls.begin(), other.calls.end(), has_same_number))
      return false;
    ranks.push_back(other.most.rank);
    for (auto& [what, sum] : calls) sum.second = std::max(sum.second, other.calls.at(what).second);
    for (int64_t RankPlan::*number : {&RankPlan::moments, &RankPlan::activations, &RankPlan::highest})
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

/// "0-3", "0 2 4", or of many that are not in a row "0 3 .. 897".
std::string names_of(const std::vector<int>& ranks) {
  const std::string first = std::to_string(ranks.front()), last = std::to_string(ranks.back());
  if (ranks.size() == 1) return first;
  if (ranks.back() - ranks.front() == static_cast<int>(ranks.size()) - 1) return first + "-" + last;
  if (ranks.size() > 3) return first + " " + std::to_string(ranks[1]) + " .. " + last;
  return joined(ranks, " ");
}

/// Prints a table whose first column is on the left and whose others are on the right.
void print_columns(std::ostream& out, const std::vector<std::vector<std::string>>& table) {
  std::vector<size_t> widths(table.front().size());
  for (const auto& line : table)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const auto& line : table) {
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string space(widths[i] - line[i].size(), ' ');
      out << "  " << (i == 0 ? line[i] + space : space + line[i]);
    }
    out << '\n';
  }
}

/// In which the largest number of a table is told.
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
  std::string operator()(int64_t number) const {
    char text[64];
    std::snprintf(text, sizeof text, "%.1f", static_cast<double>(number) / bytes);
    return text;
  }
};

}  // namespace

std::vector<RankPlan> plan_step(const Configuration& configuration, const Task& task,
                                std::span<const int64_t> samples) {
  std::vector<RankPlan> ranks(static_cast<size_t>(grid_sizes(configuration).ranks()));
  launch_threads(static_cast<int>(ranks.size()), [&](const Communicator& world) {
    ranks[static_cast<size_t>(world.rank())] = plan_rank(configuration, task, samples, world);
  });
  return ranks;
}

void print_plan(std::ostream& out, std::span<const RankPlan> plans) {
  const std::vector<AlikeRanks> groups = alike(plans);
  int64_t largest = 0, most_given = 0;
  for (const AlikeRanks& group : groups) {
    largest = std::max(largest, group.most.highest);
    for (const auto& [what, sum] : group.calls) most_given = std::max(most_given, sum.second);
  }
  const Unit memory(largest), given(most_given);
  std::vector<std::vector<std::string>> table{
      {"ranks", "parameters", "weights", "gradients", "moments", "activations", "highest"}};
  for (const AlikeRanks& group : groups) {
    const RankPlan& most = group.most;
    table.push_back({names_of(group.ranks), grouped(most.parameters), memory(most.weights), memory(most.gradients),
                     memory(most.moments), memory(most.activations), memory(most.highest)});
  }
  out << "\nmemory of a rank's tensors in a step, by formula, at most, in " << memory.name << '\n';
  print_columns(out, table);
  if (most_given == 0) return;
  table = {{"ranks", "operation", "ranks in it", "calls", "bytes given"}};
  for (const AlikeRanks& group : groups)
    for (const auto& [what, sum] : group.calls)
      table.push_back({what == group.calls.begin()->first ? names_of(group.ranks) : "",
                       what.second ? std::string(name(*what.second)) : "exchange", std::to_string(what.first),
                       grouped(sum.first), given(sum.second)});
  out << "\ncollective operations of a step, and what a rank gives to all of them, in " << given.name << '\n';
  print_columns(out, table);
}

}  // namespace adjoin::train
