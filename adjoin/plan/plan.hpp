#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "adjoin/plan/step_time.hpp"
#include "adjoin/plan/workbench.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/task.hpp"

namespace adjoin::plan {

/// Which layouts are asked for.
struct Question {
  Placement placement{};
  std::optional<int64_t> memory{};  ///< bytes that each rank may have of tensors; none: any
  std::set<std::string> fixed{};    ///< fields of fields_of_methods that keep the configuration's values
  double measuring_seconds = 30;    ///< about as long as is measured at most
  bool measures_anew = false;       ///< what was measured before is not used
};

struct PlannedLayout {
  train::Configuration configuration;
  StepTime time{};
  double samples_per_second = 0;
  int64_t memory = 0;  ///< bytes of tensors of the fullest rank in the step of the longest samples
  int64_t copies = 0;  ///< bytes that it takes beside them while a checkpoint is written in the background
  int64_t needs() const { return memory + copies; }
};

/// The layouts that `train` takes, the quickest first.
struct Plan {
  int64_t ranks = 1;
  std::optional<int64_t> memory{};
  std::vector<PlannedLayout> fitting{};
  std::vector<PlannedLayout> too_large{};  ///< what needs least first
  std::vector<std::string> remarks{};      ///< lines on what was not tried
  double seconds_measuring = 0;
};

/// Plans training on so many ranks: every layout that `train` takes of them (as `candidates` says), each with its step's time, which
/// is put together of measured segments and calls, and its memory, which is that of train::plan_step. In an MPI job all processes
/// call it, and it gives the same on all of them.
///
/// Cost: seconds of measuring (at most about 30, kept for the next plan), and each distinct segment once, forward and back
/// Throws: InvalidArgument where the configuration or the task is none, or there is no layout of so many ranks
Plan layouts(const train::Configuration& configuration, const train::TaskMaker& make, const Question& question);

/// The first of them. Throws: InvalidArgument where none fits, which says the least that one needs
const PlannedLayout& best(const Plan& plan);

/// The configuration of the first, as rank 0 of a job has it; called by all its processes.
train::Configuration agreed_best(const Plan& plan);

/// What a layout was measured at.
struct MeasuredLayout {
  double seconds = 0;  ///< of a step, the median
  int64_t memory = 0;  ///< bytes of tensors of the fullest rank in a step of the longest samples
};

/// Trains so many steps (`steps`, after two that do not count) of a typical batch on each of the first `count` layouts that fit, which
/// take turns, so that what disturbs the machine disturbs all alike. In an MPI job all processes call it, and it gives the same on all
/// of them.
std::vector<MeasuredLayout> check(const Plan& plan, const train::TaskMaker& make, size_t count, int64_t steps = 10);

/// A table of predicted beside measured, with the mean of the errors.
void print_check(std::ostream& out, const Plan& plan, std::span<const MeasuredLayout> measured);

/// A table of at most 80 columns with the options that ask for each layout; of both lists `most` lines at most, 0: all.
void print(std::ostream& out, const Plan& plan, size_t most);

/// One object; `measured` of the first layouts.
nlohmann::ordered_json to_json(const Plan& plan, std::span<const MeasuredLayout> measured = {});

}  // namespace adjoin::plan
