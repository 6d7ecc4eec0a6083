#include "adjoin/plan/plan.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/plan/extrapolated_step.hpp"
#include "adjoin/plan/layouts.hpp"
#include "adjoin/plan/planned_samples.hpp"
#include "adjoin/plan/step_time.hpp"
#include "adjoin/plan/workbench.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/task/task.hpp"
#include "adjoin/train/failures.hpp"
#include "adjoin/train/stages.hpp"
#include "adjoin/train/tasks.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/training_order.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::plan {
namespace {

using train::Configuration;

// The size of the small micro-batches from which large ones are extrapolated: large enough that their products are large.
constexpr int64_t kTimedTokens = 512, kMostTimedSamples = 8;

/// The tasks for a plan's layouts, each made once.
class Tasks {
 public:
  Tasks(Configuration base, const train::TaskMaker& make) : make_(make), base_(make_task(base, make)) {}

  const train::Task& base() const { return *base_; }
  const train::Task& of(const Configuration& c) {
    std::vector<int64_t> kind{c.tp > 1,
                              c.cp > 1,
                              c.ep > 1,
                              c.sp,
                              static_cast<int64_t>(c.cp_method),
                              c.recompute == train::Recompute::attention};
    if (c.has_program())
      kind.insert(kind.end(), {c.dp, c.tp, c.microbatches, c.zero, static_cast<int64_t>(c.recompute)});
    if (const auto found = tasks_.find(kind); found != tasks_.end()) return *found->second;
    if (std::unique_ptr<train::Task> task = base_->laid_out(c)) return *(tasks_[kind] = std::move(task));
    kind.insert(kind.end(), {c.dp, c.ep, c.pp, c.cp, c.tp});  // a task of your own may depend on more
    if (const auto found = tasks_.find(kind); found != tasks_.end()) return *found->second;
    const train::Silence silence;  // what it reads was printed before
    return *(tasks_[kind] = make_(c));
  }

 private:
  const train::TaskMaker& make_;
  std::unique_ptr<train::Task> base_;
  std::map<std::vector<int64_t>, std::unique_ptr<train::Task>> tasks_;  // by what they depend on
};

/// One rank for each coordinate along pp, the first along all other axes.
std::vector<int> one_a_coordinate(const Configuration& c) {
  const GridShape shape = grid_sizes(c).shape();
  std::vector<int> ranks;
  for (int pp = 0; pp < static_cast<int>(c.pp); ++pp) ranks.push_back(shape.rank_of(shape.cell_at({0, 0, pp, 0, 0})));
  return ranks;
}

Configuration alone(Configuration c) {
  static_cast<train::GridSizes&>(c) = {};
  c.halves = false;
  return c;
}

/// The number of samples of mean length that have `tokens` tokens.
int64_t samples_of(int64_t tokens, std::span<const int64_t> lengths) {
  if (lengths.empty()) return kMostTimedSamples;
  const int64_t mean =
      std::max<int64_t>(1, std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) / std::ssize(lengths));
  return std::clamp<int64_t>((tokens + mean - 1) / mean, 1, kMostTimedSamples);
}

/// The segments of a layout. In a job all processes cut a program where the first one does.
std::vector<models::Segment> agreed_segments(const Configuration& c, const train::Task& task) {
  if (c.has_program() && c.pp > 1 && started_by_mpi())
    train::run_workers(c, [&](const Communicator& world) { segments_of(c, task, world); });
  return segments_of(c, task);
}

/// Makes the plans of one layout after another.
class Planner {
 public:
  Planner(const Configuration& base, const train::TaskMaker& make, const PlanRequest& request)
      : tasks_(alone(base), make),
        workbench_(base, request.placement, request.measuring_seconds, request.tolerance, request.measures_anew),
        memory_({}, request.placement.hosts),
        timer_(std::bind_front(&Workbench::segment, &workbench_), request.placement.hosts),
        ranks_a_host_(request.placement.ranks_a_host()),
        longest_(longest_samples(base, tasks_.base())),
        lengths_(tasks_.base().lengths(data::Part::train)),
        timed_samples_(samples_of(kTimedTokens, lengths_)) {}

  Tasks& tasks() { return tasks_; }
  Workbench& workbench() { return workbench_; }

  /// Throws: InvalidArgument where train would refuse the layout for its model
  PlannedLayout planned(const Configuration& c) {
    PlannedLayout layout{.configuration = c};
    const std::optional<SmallSteps> small = small_steps(c);
    for (const RankPlan& rank : small ? small->at(tokens_of(c, longest_)) : memory_.plan(c, tasks_.of(c), longest_))
      if (rank.highest + rank.checkpoint_copies > layout.needs())
        layout.copies = rank.checkpoint_copies, layout.memory = rank.highest;
    time(layout, small);
    return layout;
  }
  /// Predicts the time again, with what the workbench knows now.
  void time(PlannedLayout& layout) { time(layout, small_steps(layout.configuration)); }

 private:
  /// Two steps with small, equal micro-batches, from which those of many ranks are extrapolated; of one rank at each coordinate
  /// along pp.
  struct SmallSteps {
    std::vector<RankPlan> plans[2];
    double tokens[2];
    std::vector<RankPlan> at(double number) const {
      return extrapolated_step(plans[0], tokens[0], plans[1], tokens[1], number);
    }
  };

  std::optional<SmallSteps> small_steps(const Configuration& c) {
    if (grid_sizes(c).ranks() <= kFewRanks) return std::nullopt;
    const train::Task& task = tasks_.of(c);
    const int64_t parts = c.dp * parts_of_step(c), samples = std::ssize(typical_of(c, task)) / parts;
    const int64_t few = std::clamp<int64_t>(samples / 2, 1, timed_samples_);
    SmallSteps steps;
    for (const int i : {0, 1}) {
      Configuration of_one = c;
      of_one.dp = 1;
      of_one.batch = (i + 1) * few;
      const std::vector<int64_t>& micro_batch = typical_of(of_one, task);
      std::vector<int64_t> batch;
      for (int64_t part = 0; part < parts; ++part) batch.insert(batch.end(), micro_batch.begin(), micro_batch.end());
      steps.plans[i] = timer_.plan(c, task, batch, one_a_coordinate(c));
      steps.tokens[i] = tokens_of(c, batch);
    }
    return steps;
  }

  void time(PlannedLayout& layout, const std::optional<SmallSteps>& small) {
    const Configuration& c = layout.configuration;
    const train::Task& task = tasks_.of(c);
    const std::vector<int64_t>& batch = typical_of(c, task);
    const std::vector<RankPlan> ranks =
        small ? small->at(tokens_of(c, batch)) : timer_.plan(c, task, batch, one_a_coordinate(c));
    layout.time = step_time(c, stages_of(c, segments_of(c, task)), ranks,
                            {.call = std::bind_front(&Workbench::call, &workbench_),
                             .update = std::bind_front(&Workbench::update, &workbench_),
                             .ranks_a_host = ranks_a_host_});
    layout.samples_per_second = static_cast<double>(batch.size()) / layout.time.seconds;
  }

  /// The number of tokens of the rank that has the most.
  double tokens_of(const Configuration& c, const std::vector<int64_t>& batch) const {
    return static_cast<double>(busiest_rank(c, lengths_, batch).tokens);
  }

  const std::vector<int64_t>& typical_of(const Configuration& c, const train::Task& task) {
    const auto [found, is_new] = typical_.try_emplace({c.dp, c.batch});
    if (is_new) found->second = typical_batch(c, task);
    return found->second;
  }

  Tasks tasks_;
  Workbench workbench_;
  StepPlanner memory_, timer_;
  int64_t ranks_a_host_;
  std::vector<int64_t> longest_, lengths_;
  int64_t timed_samples_;
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> typical_{};  // by ranks along dp, and samples
};

}  // namespace

Plan layouts(const Configuration& given, const train::TaskMaker& make, const PlanRequest& request) {
  const int64_t ranks = request.placement.ranks;
  require(ranks >= 1, "plan: expected at least 1 rank, got " + std::to_string(ranks));
  check_planned_device(given);
  Planner planner(given, make, request);
  Configuration configuration = given;
  configuration.task = planner.tasks().base().name();
  const Candidates tried = candidates(configuration, ranks, request.fixed, planner.tasks().base().most_stages(),
                                      request.placement.ranks_a_host());
  Plan plan{.ranks = ranks, .memory = request.memory, .remarks = tried.choices};
  std::set<std::string> refused;  // why, of layouts that the task cannot take
  std::string why = "in each layout some ranks would get no sample of a batch";
  for (const Configuration& c : tried.layouts) {
    try {
      train::with_adjoin_errors([&] {
        const train::Task& task = planner.tasks().of(c);
        if (!is_accepted(c, agreed_segments(c, task), why)) return;
        check_rows(c, task);
        if (c.has_program()) check_batches(c, task);
        PlannedLayout layout = planner.planned(c);
        const bool fits = !request.memory || layout.needs() <= *request.memory;
        (fits ? plan.fitting : plan.too_large).push_back(std::move(layout));
      });
    } catch (const InvalidArgument& error) {  // train would refuse it too, when it makes the model
      refused.insert(why = error.what());
    } catch (const Error& error) {
      if (configuration.task.empty()) throw;
      refused.insert(why = options_of(c) + ": the task fails in this layout: " + error.what());
    }
  }
  if (plan.fitting.empty())  // nothing needs to be measured to refuse them all
    for (PlannedLayout& layout : plan.too_large) layout.time = {}, layout.samples_per_second = 0;
  else
    while (planner.workbench().measure())  // until now, what was not known counted as no time
      for (auto* layouts : {&plan.fitting, &plan.too_large})
        for (PlannedLayout& layout : *layouts) planner.time(layout);
  planner.workbench().keep();
  require(!plan.fitting.empty() || !plan.too_large.empty(),
          [&] { return "--ranks " + std::to_string(ranks) + ": train accepts no layout of so many ranks: " + why; });
  std::ranges::stable_sort(plan.fitting, {}, [](const PlannedLayout& layout) { return layout.time.seconds; });
  std::ranges::stable_sort(plan.too_large, {}, &PlannedLayout::needs);
  if (tried.without_samples > 0)
    plan.remarks.push_back(counted(tried.without_samples, "grid") +
                           " left out, because some ranks would get no sample of a batch");
  if (!configuration.task.empty())
    for (const std::string& reason : refused) plan.remarks.push_back("left out: " + reason);
  plan.seconds_measuring = planner.workbench().spent();
  if (const Workbench& bench = planner.workbench(); bench.unsure() > 0)
    plan.remarks.push_back(std::to_string(bench.unsure()) + " of " + counted(bench.measured(), "measured part") +
                           " were disturbed and may be wrong; they are not kept");
  return plan;
}

const PlannedLayout& best(const Plan& plan) {
  require(!plan.fitting.empty(), [&] {
    return "--memory " + std::to_string(plan.memory.value_or(0)) + " is less than any layout of " +
           counted(plan.ranks, "rank") + " needs: the least is " + std::to_string(plan.too_large.front().needs()) +
           " bytes, with " + options_of(plan.too_large.front().configuration);
  });
  return plan.fitting.front();
}

Configuration agreed_best(const Plan& plan) {
  Configuration chosen = best(plan).configuration;
  if (!started_by_mpi()) return chosen;
  std::string text = train::to_json(chosen).dump();
  train::run_workers(chosen, [&](const Communicator& world) { text = text_from_rank(0, text, world); });
  return train::configuration_from_json(nlohmann::ordered_json::parse(text));
}

}  // namespace adjoin::plan
