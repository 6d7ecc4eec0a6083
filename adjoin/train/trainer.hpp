#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "adjoin/models/text_classifier.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/train/class_counts.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/dataset.hpp"

namespace adjoin::train {

/// The model that a configuration describes, for a vocabulary of `words` and so many classes.
models::TextClassifierOptions model_options(const Configuration& configuration, int64_t words, int64_t classes);

/// What all workers know of a step of the global batch.
struct StepResult {
  double loss = 0, accuracy = 0;
  double gradient_norm = 0;  // of all gradients, before they were clipped
  int64_t tokens = 0;
  bool interrupted = false;
  bool skipped = false;  // a gradient was not finite, so that the weights are as they were
};

/// The exact mean over a set of samples, unless it was interrupted before all were seen.
struct Evaluation {
  double loss = 0, accuracy = 0;
  ClassCounts counts{};
  bool interrupted = false;
};

/// One worker's model and optimizer on a grid {dp, tp}. All workers of the grid call each function together.
class Trainer {
 public:
  /// Builds the model, whose weights `initialize` or `load_weights` then gives.
  /// Throws: InvalidArgument where the configuration does not fit the world or itself.
  Trainer(const Configuration& configuration, const Communicator& world, int64_t words, int64_t classes = 2);

  /// Draws the weights by the configuration's seed.
  void initialize();

  /// Forward and backward of each micro-batch of a global batch, and an update. `step` counts from 0 and names the masks;
  /// `loss_scale` multiplies the loss on its way back, and is taken out of the gradients again.
  StepResult step(const data::TokenStore& dataset, std::span<const int64_t> samples, int64_t step, double learning_rate,
                  double loss_scale = 1);

  /// The mean loss and accuracy over all samples, `batch_samples` of them at once, each rank of dp taking its part.
  Evaluation evaluate(const data::TokenStore& dataset, int64_t batch_samples = 64);

  /// The scores of one worker's batch, without gradients.
  at::Tensor scores(const Batch& batch);

  const Grid& grid() const { return grid_; }
  const models::TextClassifier& model() const { return model_; }
  /// Makes the optimizer where there was none: moments are not held while a model is only evaluated.
  parallel::Optimizer& optimizer();

 private:
  /// Of a global batch, what this worker takes.
  data::BatchPart part_of(std::span<const int64_t> samples) const;
  at::Tensor forward(const Batch& batch, StepContext context);

  Configuration configuration_;
  Grid grid_;
  int64_t classes_;
  models::TextClassifier model_{nullptr};
  std::optional<parallel::Optimizer> optimizer_;
};

}  // namespace adjoin::train
