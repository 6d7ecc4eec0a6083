#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "adjoin/models/text_classifier.hpp"
#include "adjoin/parallel/adamw.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/train/class_counts.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/dataset.hpp"

namespace adjoin::train {

/// The model that a configuration describes, for a vocabulary of `words` and so many classes.
models::TextClassifierOptions model_options(const Configuration& configuration, int64_t words, int64_t classes);

/// The learning rate of step `step` of `steps`, counted from 0: a linear rise over the warm-up, then half a cosine down
/// towards lr * lr_end, which step `steps` would have, so that the last step learns too.
double learning_rate(const Configuration& configuration, int64_t step, int64_t steps);

/// What all workers know of a step of the global batch.
struct StepResult {
  double loss = 0, accuracy = 0;
  double gradient_norm = 0;  // of all gradients, before they were clipped
  int64_t tokens = 0;        // that are not padding
  bool interrupted = false;
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
  Trainer(const Configuration& configuration, const Communicator& world, int64_t words, int64_t padding_id,
          int64_t classes = 2);

  /// Draws the weights by the configuration's seed.
  void initialize();

  /// Forward, backward and update on a global batch. `step` counts from 0 and names the step's masks.
  StepResult step(const data::TokenStore& dataset, std::span<const int64_t> samples, int64_t step,
                  double learning_rate);

  /// The mean loss and accuracy over all samples, `batch_samples` of them at once, each rank of dp taking its part.
  Evaluation evaluate(const data::TokenStore& dataset, int64_t batch_samples = 64);

  /// The scores of one worker's batch, without gradients.
  at::Tensor scores(const Batch& batch);

  const Grid& grid() const { return grid_; }
  const models::TextClassifier& model() const { return model_; }
  /// Makes the optimizer where there was none: moments are not held while a model is only evaluated.
  parallel::DataParallelAdamW& optimizer();

 private:
  at::Tensor forward(const Batch& batch, const StepContext& context);

  Configuration configuration_;
  Grid grid_;
  int64_t padding_id_, classes_;
  models::TextClassifier model_{nullptr};
  std::optional<parallel::DataParallelAdamW> optimizer_;
};

}  // namespace adjoin::train
