#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/parallel/pipeline.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/expert_counts.hpp"
#include "adjoin/train/stages.hpp"
#include "adjoin/train/task.hpp"

namespace adjoin::train {

/// The type of the weights that a configuration asks for.
at::TensorOptions tensor_options(const Configuration& configuration);

/// A task's segments, of which a configuration may say that they are computed again in backward.
std::vector<models::Segment> segments_of(const Configuration& configuration, const Task& task);

/// What all workers know of a step of the global batch.
struct StepResult {
  double loss = 0;  // the mean over the batch
  std::vector<Measure> measures{};
  double gradient_norm = 0;  // of all gradients, before they were clipped
  int64_t tokens = 0;
  double flops = 0;  // operations of the model, forward and backward; 0 where its segments do not say their cost
  bool interrupted = false;
  bool skipped = false;  // a gradient was not finite, so that the weights are as they were
};

/// The exact mean over a part's samples, unless it was interrupted before all were seen.
struct Evaluation {
  double loss = 0;
  std::vector<Measure> measures{};
  std::vector<double> tally{};  // the task's, of all samples
  RowsOfExperts expert_rows{};  // of all samples
  bool interrupted = false;
};

/// Whether each rank keeps shards of weights alone.
inline bool shards_weights(const Configuration& configuration) {
  return configuration.zero == 3;
}

/// One worker's part of a model and its optimizer, on a grid {dp, ep, pp, cp, tp}. All workers of the grid call each function together.
class Trainer {
 public:
  /// Builds the model, whose weights `initialize` or `load_state` then gives. The task outlives the trainer.
  /// Throws: InvalidArgument where the configuration does not fit the world or itself.
  Trainer(const Configuration& configuration, const Task& task, const Communicator& world);

  /// Draws the weights by the configuration's seed.
  void initialize();

  /// Forward and backward of each micro-batch of a global batch of training samples, and an update. `step` counts from 0
  /// and names the masks; `loss_scale` multiplies the loss on its way back, and is taken out of the gradients again.
  StepResult step(std::span<const int64_t> samples, int64_t step, double learning_rate, double loss_scale = 1);

  /// The mean loss and the measures of samples of a part, or of all, `batch_samples` of them at once over all ranks; 0: as many as
  /// a training step goes through at once, so that an evaluation needs no more memory.
  /// `progress`, where there is one, is told after each batch how many there were, of how many, and its samples.
  using EvaluationProgress = std::function<void(int64_t batch, int64_t batches, int64_t samples)>;
  Evaluation evaluate(data::Part part, std::vector<int64_t> samples, int64_t batch_samples = 0,
                      const EvaluationProgress& progress = {});
  Evaluation evaluate(data::Part part, int64_t batch_samples = 0, const EvaluationProgress& progress = {});

  /// What the model makes of a micro-batch, without gradients, where one rank along pp has all of it.
  at::Tensor output(const MicroBatch& batch) const;

  /// Tells `observer` of each action of the pipeline in each later step and evaluation.
  void observe(parallel::ActionObserver observer) { observer_ = std::move(observer); }

  /// Whether the timeline of this thread (lab/timeline.hpp) is to have the backward of each segment in later steps, which takes a
  /// hook a segment; it has all else in any case.
  void note_backward(bool notes) { notes_backward_ = notes; }

  const Grid& grid() const { return grid_; }
  const Stages& stages() const { return stages_; }
  /// This rank's segments.
  const torch::nn::Module& module() const { return *model_; }
  /// The parameters and buffers of the whole model, with this worker's pieces.
  const std::vector<nn::Parameter>& parameters() const { return parameters_; }
  /// Makes the optimizer where there was none: moments are not held while a model is only evaluated.
  parallel::Optimizer& optimizer();

 private:
  class Sums;
  class Batches;
  /// Of a global batch, what this worker takes.
  data::BatchPart part_of(std::span<const int64_t> samples) const;
  MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                         const Step& step) const;
  /// Runs a schedule on micro-batches; `denominator` is what losses are divided by.
  void run(const pipeline::Schedule& schedule, Batches& batches, Sums& sums, double denominator, double loss_scale = 1);

  /// What check_gradients knows of this rank's stages.
  std::vector<KnownTensor> known_parameters() const;
  std::vector<KnownTensor> known_inputs(const MicroBatch& batch, const at::Tensor& input) const;

  /// Floating-point operations of a micro-batch's rows that are here, through the whole model.
  double flops_of(const MicroBatch& batch) const;
  bool has_last_stage() const;
  void add_up(Sums& sums, bool training);

  Configuration configuration_;
  const Task& task_;
  Grid grid_;
  std::vector<models::Segment> segments_;  // of all stages
  Stages stages_;
  models::Model model_;  // of this rank's segments
  std::vector<nn::Parameter> parameters_;
  std::map<bool, size_t> tally_sizes_;  // of training and evaluation, which ranks without the last stage are told
  std::optional<parallel::Optimizer> optimizer_;
  parallel::ActionObserver observer_;
  struct SegmentNames {
    std::string forward, backward;  // "forward block3", "backward block3"
  };
  std::vector<SegmentNames> slice_names_;  // of all segments
  bool notes_backward_ = false;
  bool checks_gradients_;  // of the next step
};

}  // namespace adjoin::train
