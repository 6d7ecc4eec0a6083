#include "adjoin/plan/plan.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/plan/extrapolated_step.hpp"
#include "adjoin/plan/layouts.hpp"
#include "adjoin/train/failures.hpp"
#include "adjoin/train/messages.hpp"
#include "adjoin/train/planned_samples.hpp"
#include "adjoin/train/stages.hpp"
#include "adjoin/train/tasks.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::plan {
namespace {

using train::Configuration;
using train::RankPlan;

// The size of the small micro-batches from which large ones are extrapolated: large enough that their products are large.
constexpr int64_t kTimedTokens = 512, kMostTimedSamples = 8;

/// The tasks for a plan's layouts, each made once.
class Tasks {
 public:
  Tasks(Configuration base, const train::TaskMaker& make) : make_(make), base_(make_task(base, make)) {}

  const train::Task& base() const { return *base_; }
  const train::Task& of(const Configuration& c) {
    const Key kind{c.tp > 1, c.cp > 1, c.ep > 1, c.sp, c.cp_method, c.recompute == "attention", 0, 0, 0, 0, 0};
    auto found = tasks_.find(kind);
    if (found != tasks_.end()) return *found->second;
    if (std::unique_ptr<train::Task> task = base_->laid_out(c))
      return *tasks_.emplace(kind, std::move(task)).first->second;
    Key whole = kind;  // a task of your own may depend on more
    std::get<6>(whole) = c.dp, std::get<7>(whole) = c.ep, std::get<8>(whole) = c.pp, std::get<9>(whole) = c.cp,
    std::get<10>(whole) = c.tp;
    found = tasks_.find(whole);
    if (found != tasks_.end()) return *found->second;
    const train::Silence silence;  // what it reads was printed before
    return *tasks_.emplace(whole, make_(c)).first->second;
  }

 private:
  using Key = std::tuple<bool, bool, bool, bool, std::string, bool, int64_t, int64_t, int64_t, int64_t, int64_t>;
  const train::TaskMaker& make_;
  std::unique_ptr<train::Task> base_;
  std::map<Key, std::unique_ptr<train::Task>> tasks_;
};

/// One rank for each coordinate along pp, the first along all other axes.
std::vector<int> one_a_coordinate(const Configuration& c) {
  const GridShape shape = grid_sizes(c).shape();
  std::vector<int> ranks;
  for (int pp = 0; pp < static_cast<int>(c.pp); ++pp) ranks.push_back(shape.rank_of(shape.cell_at({0, 0, pp, 0, 0})));
  return ranks;
}

Configuration alone(Configuration c) {
  c.dp = c.ep = c.pp = c.cp = c.tp = 1;
  c.sp = false;
  return c;
}

/// The number of samples of mean length that have `tokens` tokens.
int64_t samples_of(int64_t tokens, std::span<const int64_t> lengths) {
  if (lengths.empty()) return kMostTimedSamples;
  const int64_t mean =
      std::max<int64_t>(1, std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) / std::ssize(lengths));
  return std::clamp<int64_t>((tokens + mean - 1) / mean, 1, kMostTimedSamples);
}

/// Makes the plans of one layout after another.
class Planner {
 public:
  Planner(const Configuration& base, const train::TaskMaker& make, const PlanRequest& request)
      : tasks_(alone(base), make),
        workbench_(base, request.placement, request.measuring_seconds, request.measures_anew),
        timer_([this](const auto& trial, const auto& name, int64_t rows, int64_t weights) {
          return workbench_.segment(trial, name, rows, weights);
        }),
        longest_(train::longest_samples(base, tasks_.base())),
        lengths_(tasks_.base().lengths(data::Part::train)),
        timed_samples_(samples_of(kTimedTokens, lengths_)) {}

  Tasks& tasks() { return tasks_; }
  Workbench& workbench() { return workbench_; }

  /// A layout with its memory; above kFewRanks, where this comes from the same steps as the time, with both.
  /// Throws: InvalidArgument where train would refuse the layout for its model
  PlannedLayout planned(const Configuration& c) {
    const train::Task& task = tasks_.of(c);
    PlannedLayout layout{.configuration = c};
    const bool are_few = grid_sizes(c).ranks() <= kFewRanks;
    const Step step = are_few ? Step{memory_.plan(c, task, longest_), {}} : step_from_small_ones(c, task);
    for (const RankPlan& rank : step.longest)
      if (rank.highest + rank.checkpoint_copies > layout.needs())
        layout.copies = rank.checkpoint_copies, layout.memory = rank.highest;
    if (!are_few) set_time(layout, task, step.typical);
    return layout;
  }

  /// Sets the time of a layout that has none yet.
  void time(PlannedLayout& layout) {
    if (layout.is_timed()) return;
    const Configuration& c = layout.configuration;
    const train::Task& task = tasks_.of(c);
    set_time(layout, task, timer_.plan(c, task, typical_of(c, task), one_a_coordinate(c)));
  }

 private:
  /// Plans of the ranks whose memory counts, with the longest samples, and of one rank at each coordinate along pp, with
  /// typical samples.
  struct Step {
    std::vector<RankPlan> longest, typical;
  };

  void set_time(PlannedLayout& layout, const train::Task& task, const std::vector<RankPlan>& typical) {
    const Configuration& c = layout.configuration;
    layout.time = step_time(c, stages_of(c, segments_of(c, task)), typical,
                            {.call = [this](const train::PlannedCall& call) { return workbench_.call(call); },
                             .update = [this](int64_t elements) { return workbench_.update(elements); }});
    layout.samples_per_second = static_cast<double>(typical_of(c, task).size()) / layout.time.seconds;
  }

  /// Extrapolates from two steps with small, equal micro-batches, with one rank at each coordinate along pp.
  Step step_from_small_ones(const Configuration& c, const train::Task& task) {
    const int64_t parts = c.dp * c.microbatches, samples = std::ssize(typical_of(c, task)) / parts;
    const int64_t few = std::clamp<int64_t>(samples / 2, 1, timed_samples_);
    std::vector<RankPlan> plans[2];
    double tokens[2];
    for (const int i : {0, 1}) {
      Configuration of_one = c;
      of_one.dp = 1;
      of_one.batch = (i + 1) * few;
      const std::vector<int64_t>& micro_batch = typical_of(of_one, task);
      std::vector<int64_t> batch;
      for (int64_t part = 0; part < parts; ++part) batch.insert(batch.end(), micro_batch.begin(), micro_batch.end());
      plans[i] = timer_.plan(c, task, batch, one_a_coordinate(c));
      tokens[i] = tokens_of(c, batch);
    }
    const auto at = [&](const std::vector<int64_t>& batch) {
      return extrapolated_step(plans[0], tokens[0], plans[1], tokens[1], tokens_of(c, batch));
    };
    return {at(longest_), at(typical_of(c, task))};
  }

  /// The number of tokens of the rank that has the most.
  double tokens_of(const Configuration& c, const std::vector<int64_t>& batch) const {
    return static_cast<double>(train::busiest_rank(c, lengths_, batch).tokens);
  }

  const std::vector<int64_t>& typical_of(const Configuration& c, const train::Task& task) {
    const auto [found, is_new] = typical_.try_emplace({c.dp, c.batch});
    if (is_new) found->second = train::typical_batch(c, task);
    return found->second;
  }

  Tasks tasks_;
  Workbench workbench_;
  train::StepPlanner memory_, timer_;
  std::vector<int64_t> longest_, lengths_;
  int64_t timed_samples_;
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> typical_{};  // by ranks along dp, and samples
};

}  // namespace

namespace {

/// Above kFewRanks, where the memory of a layout is known only with its time: refuses at once what no layout can do.
void check_weights_fit(const Configuration& c, const train::Task& task, const PlanRequest& request) {
  const int64_t ranks = request.placement.ranks;
  if (!request.memory || ranks <= kFewRanks) return;
  int64_t weights = 0;
  for (const nn::Parameter& parameter : train::parameters_of(train::described_model(task)))
    weights += parameter.tensor.numel() * static_cast<int64_t>(c10::elementSize(weight_type(c.precision)));
  require(weights / ranks <= *request.memory, [&] {
    return "--memory " + std::to_string(*request.memory) + " is less than any layout of " + counted(ranks, "rank") +
           " needs: its share of the weights alone is " + std::to_string(weights / ranks) + " bytes";
  });
}

}  // namespace

Plan layouts(const Configuration& given, const train::TaskMaker& make, const PlanRequest& request) {
  const int64_t ranks = request.placement.ranks;
  require(ranks >= 1, "plan: expected at least 1 rank, got " + std::to_string(ranks));
  Planner planner(given, make, request);
  Configuration configuration = given;
  configuration.task = planner.tasks().base().name();
  check_weights_fit(configuration, planner.tasks().base(), request);
  const std::vector<models::Segment> segments = planner.tasks().base().segments();
  const Candidates tried = candidates(configuration, ranks, request.fixed, std::ssize(segments));
  Plan plan{.ranks = ranks, .memory = request.memory, .remarks = tried.choices};
  std::set<std::string> refused;  // why, of layouts that the task cannot take
  std::string why = "in each layout some ranks would get no sample of a batch";
  for (const Configuration& c : tried.layouts) {
    if (!is_accepted(c, segments_of(c, planner.tasks().of(c)), why)) continue;
    try {
      train::with_adjoin_errors([&] {
        check_rows(c, planner.tasks().of(c));
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
  if (!plan.fitting.empty())  // else nothing needs to be measured to refuse them all
    for (auto* list : {&plan.fitting, &plan.too_large})
      for (PlannedLayout& layout : *list) planner.time(layout);
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
  train::run_workers(train::worker_options(chosen), [&](const Communicator& world) { text = text_of(0, text, world); });
  return train::configuration_from_json(nlohmann::ordered_json::parse(text));
}

}  // namespace adjoin::plan
