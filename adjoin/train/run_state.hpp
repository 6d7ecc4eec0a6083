#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "adjoin/data/sampler.hpp"
#include "adjoin/train/skipped_steps.hpp"
#include "adjoin/train/validation.hpp"

namespace adjoin::train {

/// How far a run has come. Together with weights and moments it is all that a checkpoint holds.
struct RunState {
  int64_t step = 0;  // steps so far
  data::Position position;
  double train_seconds = 0;
  double epoch_loss = 0;  // sum over the samples of the epoch so far, without skipped steps
  int64_t epoch_samples = 0;
  int64_t epoch_learned = 0;   // samples whose steps were not skipped, over which epoch_loss is the sum
  double last_epoch_loss = 0;  // mean over the last finished epoch in which a step was not skipped
  int64_t samples = 0;         // samples in an epoch
  int64_t batch = 0;
  uint64_t order = 0;     // a hash of what decides the order of the samples
  int64_t evaluated = 0;  // the last step after which the model was evaluated
  SkippedSteps skipped;
  LossScale loss_scale;  // for fp16
  Validations validations;
};

/// The content of a checkpoint's state.json, and the state that such a content describes.
/// Throws: DamagedFile where the content is not valid
nlohmann::ordered_json to_json(const RunState& state);
RunState run_state_of(const std::filesystem::path& file, const std::string& content);

/// Checks that a run that begins with the samples of `given` can continue the saved one of a folder: a position in the data has
/// a meaning only if the epoch is still the same.
/// Throws: InvalidArgument that says which option changes the epoch
void check_data(const std::string& folder, const RunState& saved, const RunState& given);

/// Checks that a checkpoint's number of steps fits its position in the data, and that its other numbers are possible.
/// Throws: InvalidArgument, with the name of the file
void check_position(const std::filesystem::path& file, const RunState& state, int64_t steps_per_epoch);

}  // namespace adjoin::train
