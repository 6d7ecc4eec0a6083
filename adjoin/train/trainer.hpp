#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/parallel/pipeline.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task.hpp"
#include "adjoin/train/lanes.hpp"
#include "adjoin/train/results.hpp"
#include "adjoin/train/stages.hpp"

namespace adjoin::train {

/// The tensor options of a configuration's weights.
at::TensorOptions tensor_options(const Configuration& configuration, const Communicator& world);

/// A task's segments for the stages of a configuration; some are computed again in backward if it says so.
/// Throws: as Task::segments_for and stage_count
std::vector<models::Segment> segments_of(const Configuration& configuration, const Task& task,
                                         const Communicator& world = {});

/// How ranks keep weights of which others hold copies.
inline models::Sharding sharding_of(const Configuration& configuration) {
  using models::Sharding;
  if (configuration.has_program()) return Sharding::none;  // its segment shards its weights itself
  constexpr Sharding kStages[] = {Sharding::rows_of_gradients, Sharding::tables, Sharding::tables, Sharding::all};
  return kStages[configuration.zero];
}
/// Whether each keeps only shards of all of them.
inline bool shards_weights(const Configuration& configuration) {
  return sharding_of(configuration) == models::Sharding::all;
}

/// One worker's part of a model and its optimizer, on a grid {dp, ep, pp, cp, tp}. All workers of the grid call each function
/// together.
class Trainer {
 public:
  /// Builds the model; `initialize` or `load_state` then sets its weights. The task must outlive the trainer.
  /// Throws: InvalidArgument where the configuration does not fit the world or itself.
  Trainer(const Configuration& configuration, const Task& task, const Communicator& world);

  /// Draws the weights by the configuration's seed.
  void initialize();

  /// Runs forward and backward of each micro-batch of a global batch of training samples, and an update. `step` counts from 0
  /// and decides the dropout masks. `loss_scale` multiplies the loss for backward; the gradients are divided by it again.
  StepResult step(std::span<const int64_t> samples, int64_t step, double learning_rate, double loss_scale = 1);

  /// The mean loss and the measures of samples of a part, or of all of them. `batch_samples` are computed at once over all
  /// ranks; 0: as many as a training step computes at once, so that an evaluation needs no more memory. `progress`, if given,
  /// is called after each batch with the number of batches so far, their total number, and the samples of this batch.
  using EvaluationProgress = std::function<void(int64_t batch, int64_t batches, int64_t samples)>;
  Evaluation evaluate(data::Part part, std::vector<int64_t> samples, int64_t batch_samples = 0,
                      const EvaluationProgress& progress = {});
  Evaluation evaluate(data::Part part, int64_t batch_samples = 0, const EvaluationProgress& progress = {});

  /// The model's output for a micro-batch, without gradients; one rank along pp must have the whole model.
  at::Tensor output(const MicroBatch& batch) const;

  /// Calls `observer` for each action of the pipeline in each later step and evaluation.
  void observe(parallel::ActionObserver observer) { observer_ = std::move(observer); }

  /// Whether this thread's timeline (lab/timeline.hpp) also records the backward of each segment in later steps, which takes a
  /// hook for each segment. It records everything else in any case.
  void note_backward(bool notes) { notes_backward_ = notes; }

  const Grid& grid() const { return grid_; }
  /// The type and device of weights and activations.
  const at::TensorOptions& tensor() const { return tensor_; }
  const Stages& stages() const { return stages_; }
  /// This rank's segments.
  const torch::nn::Module& module() const { return *model_; }
  /// The parameters and buffers of the whole model, as this worker's pieces.
  const std::vector<nn::Parameter>& parameters() const {
    if (optimizer_) optimizer_->settle();
    return parameters_;
  }
  /// Makes the optimizer on the first call, so that moments take no memory while a model is only evaluated.
  parallel::Optimizer& optimizer();

 private:
  struct Sums;
  class StageRunner;
  /// Runs a schedule on the micro-batches that `make` gives by number; losses are divided by `denominator`.
  void run(const pipeline::Schedule& schedule, const std::function<OrderedBatch(int)>& make, Sums& sums,
           double denominator, double loss_scale = 1);
  void add_up(Sums& sums, bool training);

  Configuration configuration_;
  const Task& task_;
  Grid grid_;
  std::optional<Lanes> lanes_;  // where sums have one order
  Stages stages_;
  at::TensorOptions tensor_;  // of weights and what they compute
  models::Model model_;       // of this rank's segments
  std::vector<nn::Parameter> parameters_;
  std::map<bool, size_t> tally_sizes_;  // for training and evaluation; for ranks without the last stage
  std::optional<parallel::Optimizer> optimizer_;
  parallel::ActionObserver observer_;
  struct SegmentNames {
    std::string forward, backward;  // "forward block3", "backward block3"
  };
  std::vector<SegmentNames> slice_names_;  // for each segment of the model
  bool notes_backward_ = false;
  bool checks_gradients_;  // in the next step
};

}  // namespace adjoin::train
