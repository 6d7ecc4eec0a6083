#include "adjoin/train/run_state.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {

nlohmann::ordered_json to_json(const RunState& state) {
  return {{"step", state.step},
          {"epoch", state.position.epoch},
          {"step_of_epoch", state.position.step},
          {"train_seconds", state.train_seconds},
          {"epoch_loss", state.epoch_loss},
          {"epoch_samples", state.epoch_samples},
          {"last_epoch_loss", state.last_epoch_loss},
          {"samples", state.samples},
          {"batch", state.batch},
          {"order", state.order},
          {"evaluated", state.evaluated},
          {"epoch_learned", state.epoch_learned},
          {"skipped", {{"all", state.skipped.all}, {"in_a_row", state.skipped.in_a_row}}},
          {"loss_scale", {{"value", state.loss_scale.value}, {"good_steps", state.loss_scale.good_steps}}},
          {"best_loss", state.validations.best_loss ? nlohmann::ordered_json(*state.validations.best_loss) : nullptr},
          {"best_step", state.validations.best_step},
          {"since_best", state.validations.since_best}};
}

RunState run_state_of(const std::filesystem::path& file, const std::string& content) {
  try {
    const auto json = nlohmann::json::parse(content);
    Validations validations{.best_step = json.at("best_step"), .since_best = json.at("since_best")};
    if (!json.at("best_loss").is_null()) validations.best_loss = json.at("best_loss");
    return {.step = json.at("step"),
            .position = {json.at("epoch"), json.at("step_of_epoch")},
            .train_seconds = json.at("train_seconds"),
            .epoch_loss = json.at("epoch_loss"),
            .epoch_samples = json.at("epoch_samples"),
            .epoch_learned = json.at("epoch_learned"),
            .last_epoch_loss = json.at("last_epoch_loss"),
            .samples = json.at("samples"),
            .batch = json.at("batch"),
            .order = json.at("order"),
            .evaluated = json.at("evaluated"),
            .skipped = {json.at("skipped").at("all"), json.at("skipped").at("in_a_row")},
            .loss_scale = {json.at("loss_scale").at("value"), json.at("loss_scale").at("good_steps")},
            .validations = validations};
  } catch (const nlohmann::json::exception&) {
    throw DamagedFile(file.string() + ": this is not the state of a training run");
  }
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
