#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "adjoin/data/sampler.hpp"
#include "adjoin/train/metrics.hpp"
#include "adjoin/train/peak_memory.hpp"
#include "adjoin/train/progress.hpp"
#include "adjoin/train/schedule.hpp"
#include "adjoin/train/storage/checkpoint_save.hpp"
#include "adjoin/train/storage/output_folder.hpp"
#include "adjoin/train/storage/run_state.hpp"
#include "adjoin/train/storage/saved_model.hpp"
#include "adjoin/train/summary.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/validation.hpp"

namespace adjoin::train {

/// Which samples each step of a training takes.
data::Sampler make_sampler(const Configuration& configuration, const Task& task, const HeldOut& samples);

/// One worker of a training run: the loop from the first batch, or a checkpoint, to the summary.
class TrainingRun {
 public:
  /// `beginning`: the model that it begins with where it resumes no run, if not with drawn weights.
  TrainingRun(const Configuration& configuration, const Task& task, const Communicator& world,
              const SavedModel* beginning = nullptr);

  /// Trains to the end, evaluates and writes the output folder. Returns nothing where the user interrupted it; the
  /// checkpoint is then written.
  std::optional<Summary> run();

 private:
  void resume();
  /// Makes sure that the folder can be written, and changes nothing in it.
  void take_folder();
  /// Replaces what an earlier run has left, once: called by all when there is something to write, so that a run that fails
  /// in its first step costs nothing.
  void begin_output();
  void train_step();
  /// Adds a step to the state: the loss scale, the skipped steps, and the epoch's mean loss.
  void count_step(const StepResult& result, int64_t samples);
  /// Whether the model is to be evaluated now, within the run.
  bool is_evaluation_due() const;
  void evaluate_and_record();
  /// Whether this start has taken as long as it may, by the clock of rank 0.
  bool is_out_of_time() const;
  /// Whether so many validations were no better that training ends.
  bool is_out_of_patience(const RunState& state) const;
  /// Begins to save, after what is still being saved.
  void save_checkpoint();
  /// Returns when what is being saved is there, if there is anything. As CheckpointSave::finish
  void finish_save(const std::string& what = "", std::chrono::milliseconds note_after = std::chrono::minutes(1));
  /// Goes on with what is being saved, without waiting.
  void advance_save();
  std::vector<RankSummary> rank_summaries() const;
  /// Nothing where it was interrupted.
  std::optional<Summary> finish();
  std::vector<nn::Parameter> parameters() const { return trainer_.parameters(); }
  bool root() const { return world_.rank() == 0; }
  bool scales_loss() const { return configuration_.precision == Precision::fp16; }
  int64_t total_steps() const { return train::total_steps(configuration_, std::ssize(samples_.train)); }

  const Configuration& configuration_;
  const Task& task_;
  HeldOut samples_;
  Communicator world_;
  PeakMemory memory_;
  Trainer trainer_;
  data::Sampler sampler_;
  RunState state_;
  int64_t first_step_ = 0;  // taken by the run that this one goes on with
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  bool interrupted_ = false, has_begun_output_ = false;
  int64_t peak_bytes_ = 0;
  std::vector<nn::Parameter> best_;     // the weights that did best in validation, where there was one
  std::optional<OutputFolder> folder_;  // of rank 0, as the next two
  std::optional<MetricsFile> metrics_;
  std::unique_ptr<ProgressBar> progress_;
  std::optional<CheckpointSave> save_;  // that goes on
  bool warned_ = false;                 // of earlier checkpoints that cannot be removed
};

}  // namespace adjoin::train
