#pragma once

#include <span>
#include <string>
#include <vector>

#include "adjoin/train/storage/saved_model.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::train {

/// The model in a training run's output folder, held by one worker.
class Predictor {
 public:
  /// Throws: InvalidArgument as open_model and load_weights do
  explicit Predictor(const std::string& model);

  /// What the model's task predicts of each text, all of them computed as one batch.
  std::vector<Prediction> predict(std::span<const std::string> texts);

 private:
  SavedModel saved_;
  Trainer trainer_;
};

}  // namespace adjoin::train
