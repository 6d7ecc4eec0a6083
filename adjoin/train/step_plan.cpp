#include "adjoin/train/step_plan.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <tuple>

#include "adjoin/comm/launch.hpp"
#include "adjoin/train/messages.hpp"
#include "adjoin/train/optimizer.hpp"
#include "adjoin/train/plan.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::train {
namespace {

/// The most bytes at once while micro-batches go forward and back, one after another: activations are there from forward
/// until backward has passed their segment, and gradients from then on.
class MemoryWalk {
 public:
  explicit MemoryWalk(int64_t before) : live_(before), highest_(before) {}

  void micro_batch(const std::vector<models::Segment>& segments, const models::Load& load) {
    for (const models::Segment& segment : segments) live_ += segment.needs(load).kept;
    for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
      const models::Needs needs = segment->needs(load);
      for (const at::Tensor& weight : segment->module->parameters())
        if (counted_.insert(weight.unsafeGetTensorImpl()).second) live_ += static_cast<int64_t>(weight.nbytes());
      highest_ = std::max(highest_, live_ + needs.temporary);
      live_ -= needs.kept;
    }
  }
  int64_t highest() const { return highest_; }

 private:
  int64_t live_, highest_;
  std::set<const c10::TensorImpl*> counted_;  // whose gradients are there
};

RankPlan plan_rank(const Configuration& c, const Task& task, std::span<const int64_t> samples,
                   const Communicator& world) {
  const Grid grid(world, plan_of(c).grid());
  const models::Model model = task.model(grid, tensor_options(c).device(at::kMeta));
  const parallel::Optimizer optimizer = make_optimizer(c, nn::parameters_of(*model.module));
  RankPlan plan{.rank = world.rank(), .moments = optimizer.moment_bytes(), .calls = optimizer.calls()};
  for (const at::Tensor& weight : model.module->parameters()) {
    plan.parameters += weight.numel();
    plan.weights += static_cast<int64_t>(weight.nbytes());
  }
  plan.gradients = plan.weights;

  const Communicator& dp = grid.axis("dp");
  const data::BatchPart mine = data::part_of(std::ssize(samples), dp.rank(), dp.size());
  MemoryWalk memory(plan.weights + plan.moments);
  for (int i = 0; i < c.microbatches; ++i) {
    const MicroBatch batch =
        task.micro_batch(data::Part::train, samples, data::part_of(mine, i, static_cast<int>(c.microbatches)), {});
    const bool is_16_bit = c.precision == "bf16" || c.precision == "fp16";
    const int64_t bytes = c.precision == "fp64" ? 8 : 4;
    const models::Load load{
        .rows = batch.context.rows ? batch.context.rows->size() : batch.input.size(0),
        .samples = batch.context.rows ? std::ssize(batch.context.rows->lengths()) : batch.input.size(0),
        .bytes = bytes,
        .product_bytes = is_16_bit ? 2 : bytes};
    int64_t kept = 0;
    for (const models::Segment& segment : model.segments) {
      const models::Needs needs = segment.needs(load);
      kept += needs.kept;
      models::append(plan.calls, needs.calls);
    }
    models::append(plan.calls, task.loss_calls(load, grid));
    memory.micro_batch(model.segments, load);
    plan.rows = std::max(plan.rows, load.rows);
    plan.activations = std::max(plan.activations, kept);
  }
  plan.highest = memory.highest();
  if (world.size() > 1)  // what the step came to: Trainer::Sums
    plan.calls.push_back(
        {Collective::all_reduce, world.size(), static_cast<int64_t>(sizeof(double)) * (3 + task.tally_size())});
  return plan;
}

std::string mib(int64_t bytes, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, static_cast<double>(bytes) / (1 << 20));
  return text;
}

using Cells = std::vector<std::string>;

/// The ranks that have this line: "0-3 6".
std::string ranges(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ' ';
    text += std::to_string(ranks[i]);
    if (end - i > 1) text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

/// Prints lines with what ranks they are of, in front, each once.
class RankTable {
 public:
  explicit RankTable(Cells head) { add_line("ranks", std::move(head)); }
  void add(int rank, const std::vector<Cells>& lines) {
    auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) { return group.lines == lines; });
    if (found == groups_.end()) found = groups_.insert(groups_.end(), {{}, lines});
    found->ranks.push_back(rank);
  }
  void print(std::ostream& out) {
    for (const Group& group : groups_)
      for (size_t i = 0; i < group.lines.size(); ++i) add_line(i == 0 ? ranges(group.ranks) : "", group.lines[i]);
    std::vector<size_t> widths;
    for (const Cells& line : lines_)
      for (size_t i = 0; i < line.size(); ++i) {
        if (i == widths.size()) widths.push_back(0);
        widths[i] = std::max(widths[i], line[i].size());
      }
    for (const Cells& line : lines_) {
      for (size_t i = 0; i < line.size(); ++i) {
        const std::string space(widths[i] - line[i].size(), ' ');
        out << "  " << (i == 0 ? line[i] + space : space + line[i]);
      }
      out << '\n';
    }
  }

 private:
  struct Group {
    std::vector<int> ranks;
    std::vector<Cells> lines;
  };
  void add_line(std::string first, const Cells& rest) {
    Cells line{std::move(first)};
    line.insert(line.end(), rest.begin(), rest.end());
    lines_.push_back(std::move(line));
  }
  std::vector<Group> groups_;
  std::vector<Cells> lines_;
};

}  // namespace

std::vector<RankPlan> plan_step(const Configuration& configuration, const Task& task,
                                std::span<const int64_t> samples) {
  std::vector<RankPlan> ranks(static_cast<size_t>(plan_of(configuration).ranks()));
  launch_threads(static_cast<int>(ranks.size()), [&](const Communicator& world) {
    ranks[static_cast<size_t>(world.rank())] = plan_rank(configuration, task, samples, world);
  });
  return ranks;
}

void print_plan(std::ostream& out, std::span<const RankPlan> ranks) {
  RankTable memory({"parameters", "weights", "gradients", "moments", "activations", "highest"});
  RankTable calls({"of", "operation", "calls", "given"});
  bool has_calls = false;
  for (const RankPlan& rank : ranks) {
    memory.add(rank.rank, {{grouped(rank.parameters), mib(rank.weights, 1), mib(rank.gradients, 1),
                            mib(rank.moments, 1), mib(rank.activations, 1), mib(rank.highest, 1)}});
    std::map<std::tuple<int, Collective>, std::pair<int64_t, int64_t>> sums;
    for (const PlannedCall& call : rank.calls) {
      auto& [count, bytes] = sums[{call.ranks, call.collective}];
      ++count;
      bytes += call.bytes;
    }
    std::vector<Cells> lines;
    for (const auto& [what, sum] : sums)
      lines.push_back({std::to_string(std::get<0>(what)), std::string(name(std::get<1>(what))), grouped(sum.first),
                       mib(sum.second, 3)});
    has_calls = has_calls || !lines.empty();
    if (!lines.empty()) calls.add(rank.rank, lines);
  }
  out << "\nmemory of a rank's tensors in a step, by formula, in MiB\n";
  memory.print(out);
  if (!has_calls) return;
  out << "\ncollective operations of a step, and what a rank gives to them, in MiB\n";
  calls.print(out);
}

}  // namespace adjoin::train
