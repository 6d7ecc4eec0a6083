#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "adjoin/plan/job.hpp"
#include "adjoin/plan/rank_plan.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task_maker.hpp"

namespace adjoin::plan {

/// The layouts that a user asks about.
struct PlanRequest {
  JobHosts placement{};
  std::optional<int64_t> memory{};  ///< the most bytes of tensors for each rank; none: no limit
  std::set<std::string> fixed{};    ///< fields of fields_of_methods that keep the configuration's values
  double measuring_seconds = 30;    ///< about the longest time to measure
  bool measures_anew = false;       ///< ignores earlier measurements
  double tolerance = 0.05;          ///< share of a measurement that other programs may disturb, and half of its spread
};

struct PlannedLayout {
  train::Configuration configuration;
  StepTime time{};  ///< zeros where no layout fits into the memory, as then nothing is measured
  double samples_per_second = 0;
  int64_t memory = 0;  ///< bytes of tensors of the fullest rank, in the step of the longest samples
  int64_t copies = 0;  ///< more bytes of that rank while a checkpoint is written in the background
  int64_t needs() const { return memory + copies; }
  bool is_timed() const { return time.seconds > 0; }
};

/// The layouts that `train` accepts, the quickest first.
struct Plan {
  int64_t ranks = 1;
  std::optional<int64_t> memory{};
  std::vector<PlannedLayout> fitting{};
  std::vector<PlannedLayout> too_large{};  ///< the one that needs least first
  std::vector<std::string> remarks{};      ///< lines about what was not tried, or left out
  double seconds_measuring = 0;
};

/// Plans training on a number of ranks: every layout that `train` accepts for them (as `candidates` says), each with the time
/// of its step, computed from measured segments and calls, and its memory, which is that of plan_step. In an MPI job all
/// processes call it and get the same result.
///
/// Layouts in which a task of your own fails are left out; `remarks` say why.
///
/// Cost: seconds of measuring (at most about 30, kept for the next plan), and each distinct segment once, forward and back
/// Throws: InvalidArgument where the configuration or the task is not valid, or where there is no layout of this number of
///         ranks
Plan layouts(const train::Configuration& configuration, const train::TaskMaker& make, const PlanRequest& request);

/// The first layout. Throws: InvalidArgument where none fits, with the least memory that a layout needs
const PlannedLayout& best(const Plan& plan);

/// The configuration of the first layout, as rank 0 of a job has it; all processes of the job call it.
train::Configuration agreed_best(const Plan& plan);

/// The measured values of a layout.
struct MeasuredLayout {
  std::string options{};  ///< as options_of says them
  double seconds = 0;     ///< median of a step
  int64_t memory = 0;     ///< bytes of tensors of the fullest rank, in a step of the longest samples
};

/// Trains `steps` steps of a typical batch (after two that do not count) on each of the first `count` layouts that fit. The
/// layouts take turns, so that a disturbance of the machine affects all alike. In an MPI job all processes call it and get the
/// same result.
std::vector<MeasuredLayout> check(const Plan& plan, const train::TaskMaker& make, size_t count, int64_t steps = 10);

/// Whether what was measured for the plan is probably wrong: the seconds of the steps are off by more than 7 % in the mean, or
/// by more than a fifth for one layout.
bool is_refuted(const Plan& plan, std::span<const MeasuredLayout> measured);

/// Prints a table of predicted and measured values, with the mean of the errors. `measured`: of layouts that fit.
void print_check(std::ostream& out, const Plan& plan, std::span<const MeasuredLayout> measured);

/// Prints a table of at most 80 columns with the options for each layout; at most `most` lines of each of the two lists, 0:
/// all.
void print(std::ostream& out, const Plan& plan, size_t most);

/// One JSON object.
nlohmann::ordered_json to_json(const Plan& plan, std::span<const MeasuredLayout> measured = {});

}  // namespace adjoin::plan
