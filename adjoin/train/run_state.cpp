#include "adjoin/train/run_state.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "adjoin/base/error.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {

namespace {

/// Calls `use` with the place of each number in state.json, and the number.
template <class State, class Use>
void for_each_number(State& s, const Use& use) {
  use("/step", s.step);
  use("/epoch", s.position.epoch);
  use("/step_of_epoch", s.position.step);
  use("/train_seconds", s.train_seconds);
  use("/epoch_loss", s.epoch_loss);
  use("/epoch_samples", s.epoch_samples);
  use("/last_epoch_loss", s.last_epoch_loss);
  use("/samples", s.samples);
  use("/batch", s.batch);
  use("/order", s.order);
  use("/evaluated", s.evaluated);
  use("/epoch_learned", s.epoch_learned);
  use("/skipped/all", s.skipped.all);
  use("/skipped/in_a_row", s.skipped.in_a_row);
  use("/loss_scale/value", s.loss_scale.value);
  use("/loss_scale/good_steps", s.loss_scale.good_steps);
  use("/best_loss", s.validations.best_loss);
  use("/best_step", s.validations.best_step);
  use("/since_best", s.validations.since_best);
}

}  // namespace

nlohmann::ordered_json to_json(const RunState& state) {
  nlohmann::ordered_json json;
  for_each_number(state, [&](const char* place, const auto& number) {
    nlohmann::ordered_json& value = json[nlohmann::ordered_json::json_pointer(place)];
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(number)>>)
      value = number;
    else if (number)
      value = *number;
  });
  return json;
}

RunState run_state_of(const std::filesystem::path& file, const std::string& content) {
  RunState state;
  try {
    const auto json = nlohmann::json::parse(content);
    for_each_number(state, [&](const char* place, auto& number) {
      const nlohmann::json& value = json.at(nlohmann::json::json_pointer(place));
      if constexpr (std::is_arithmetic_v<std::decay_t<decltype(number)>>)
        value.get_to(number);
      else if (!value.is_null())
        number = value.get<double>();
    });
  } catch (const nlohmann::json::exception&) {
    throw DamagedFile(file.string() + ": this is not the state of a training run");
  }
  return state;
}

void check_data(const std::string& folder, const RunState& saved, const RunState& given) {
  require(saved.samples == given.samples, [&] {
    return "--resume " + folder + ": the run has " + std::to_string(saved.samples) + " training samples, but --data, " +
           "--samples and --validation now give " + std::to_string(given.samples);
  });
  require(saved.batch == given.batch, [&] {
    return "--resume " + folder + ": the run's batch is " + std::to_string(saved.batch) + ", but --batch is " +
           std::to_string(given.batch);
  });
  require(saved.position.step == 0 || saved.order == given.order, [&] {
    return "--resume " + folder +
           ": the run stopped within an epoch, and --data, --seed or --bucket now change the order "
           "of its samples";
  });
}

void check_position(const std::filesystem::path& file, const RunState& state, int64_t steps_per_epoch) {
  const data::Position& at = state.position;
  require(at.epoch >= 0 && at.step >= 0 && at.step < steps_per_epoch && state.epoch_samples >= 0 &&
              state.step == at.epoch * steps_per_epoch + at.step,
          [&] { return file.string() + ": its step, its epoch and its step of the epoch do not agree"; });
  const SkippedSteps& skipped = state.skipped;
  require(skipped.in_a_row >= 0 && skipped.in_a_row <= skipped.all && skipped.all <= state.step,
          [&] { return file.string() + ": its number of skipped steps is impossible"; });
  require(std::isfinite(state.loss_scale.value) && state.loss_scale.value >= 1,
          [&] { return file.string() + ": its loss scale is not a number of at least 1"; });
}

}  // namespace adjoin::train
