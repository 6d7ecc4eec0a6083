#include "adjoin/task/traced_steps.hpp"

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/store/checkpoint_folders.hpp"

namespace adjoin::train {
namespace {

/// The step that a text names; 0 if it names none.
int64_t step_in(std::string_view text) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  return error == std::errc() && end == text.data() + text.size() && step > 0 ? step : 0;
}

}  // namespace

std::optional<StepRange> traced_steps(const Configuration& configuration) {
  if (configuration.trace.empty()) return std::nullopt;
  const std::vector<std::string_view> parts = parts_of(configuration.trace, '-');
  const StepRange steps{step_in(parts.front()), step_in(parts.back())};
  require(parts.size() <= 2 && steps.first > 0 && steps.first <= steps.last, [&] {
    return "--trace is \"" + configuration.trace +
           "\", expected a step, as 3, or the first and the last of several, as 3-5, counted from 1";
  });
  return steps;
}

void check_traced_steps(const Configuration& configuration, int64_t taken, int64_t total) {
  const std::optional<StepRange> steps = traced_steps(configuration);
  if (!steps) return;
  const std::string option = "--trace " + configuration.trace + ": ";
  require(steps->first > taken, [&] { return option + "the run goes on after step " + std::to_string(taken); });
  require(steps->last <= total, [&] { return option + "the run has " + counted(total, "step"); });
}

bool traced_steps_are_past(const Configuration& configuration) {
  const std::optional<StepRange> steps = traced_steps(configuration);
  if (!steps || configuration.resume.empty()) return false;
  const std::vector<CheckpointFolder> checkpoints = checkpoints_in(configuration.resume);
  return !checkpoints.empty() && steps->first <= checkpoints.front().step;
}

}  // namespace adjoin::train
