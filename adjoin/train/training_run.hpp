#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "adjoin/data/sampler.hpp"
#include "adjoin/lab/timeline.hpp"
#include "adjoin/movement/peak_memory.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/checkpoint_save.hpp"
#include "adjoin/store/output_folder.hpp"
#include "adjoin/train/metrics.hpp"
#include "adjoin/train/progress.hpp"
#include "adjoin/train/run_state.hpp"
#include "adjoin/train/run_times.hpp"
#include "adjoin/train/run_trace.hpp"
#include "adjoin/train/saved_model.hpp"
#include "adjoin/train/schedule.hpp"
#include "adjoin/train/summary.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/validation.hpp"

namespace adjoin::train {

/// One worker of a training run: the loop from the first batch, or from a checkpoint, to the summary.
class TrainingRun {
 public:
  /// `beginning`: the model with which a run begins that resumes no other run; if null, weights are drawn.
  TrainingRun(const Configuration& configuration, const Task& task, const Communicator& world,
              const SavedModel* beginning = nullptr);

  /// Trains to the end, evaluates and writes the output folder. Returns none if the user interrupted it; the checkpoint has
  /// then been written.
  std::optional<Summary> run();

 private:
  void resume();
  /// Makes sure that the folder can be written, and changes nothing in it.
  void take_folder();
  /// Removes what an earlier run has left, once. All ranks call it when there is something to write, so that a run that fails
  /// in its first step destroys nothing.
  void begin_output();
  /// The training samples of the next global batch, as indices into the train part.
  std::vector<int64_t> next_samples();
  void train_step();
  /// Updates the state after a step: the loss scale, the skipped steps, and the epoch's mean loss.
  void count_step(const StepResult& result, int64_t samples);
  /// Whether an evaluation is due now, during the run.
  bool is_evaluation_due() const;
  /// Of weights and moments; "" if --hash-every does not ask for it now. All workers call it.
  std::string hash_if_due() {
    if (configuration_.hash_every == 0 || state_.step % configuration_.hash_every != 0) return "";
    return hash_of_state({{kWeightsFile, parameters()}, {kMomentsFile, trainer_.optimizer().moments()}}, world_);
  }
  void evaluate_and_record();
  /// Whether the time limit of this start is reached, by the clock of rank 0.
  bool is_out_of_time() const;
  /// Whether training must end because too many validations brought no improvement.
  bool is_out_of_patience(const RunState& state) const;
  /// Begins to save a checkpoint, after a save in progress has finished.
  void save_checkpoint();
  /// Waits until a save in progress has finished, if there is one. As CheckpointSave::finish
  void finish_save(const std::string& what = "", std::chrono::milliseconds note_after = std::chrono::minutes(1));
  /// Advances a save in progress, without waiting.
  void advance_save();
  std::vector<RankSummary> rank_summaries() const;
  /// Returns none if it was interrupted.
  std::optional<Summary> finish();
  std::vector<nn::Parameter> parameters() const { return trainer_.parameters(); }
  bool root() const { return world_.rank() == 0; }
  bool scales_loss() const { return configuration_.precision == Precision::fp16; }
  int64_t total_steps() const { return train::total_steps(configuration_, std::ssize(samples_.train)); }

  const Configuration& configuration_;
  const Task& task_;
  HeldOut samples_;
  const std::shared_ptr<lab::Timeline> timeline_ = std::make_shared<lab::Timeline>();  // of this rank's calls
  const Communicator world_;                                                           // observed by timeline_
  RunTimes times_;
  PeakMemory memory_;
  Trainer trainer_;
  data::Sampler sampler_;
  RunTrace trace_;
  RunState state_;
  int64_t first_step_ = 0;  // steps of the run that this one resumes
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  bool interrupted_ = false, has_begun_output_ = false;
  int64_t peak_bytes_ = 0;
  std::vector<nn::Parameter> best_;     // the weights that were best in validation, if there was one
  std::optional<OutputFolder> folder_;  // on rank 0, like the next two
  std::optional<MetricsFile> metrics_;
  std::unique_ptr<ProgressBar> progress_;
  std::optional<CheckpointSave> save_;  // in progress
  bool warned_ = false;                 // about earlier checkpoints that cannot be removed
};

}  // namespace adjoin::train
