#include "adjoin/train/training_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/contract/common_cause.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/observers.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/fail_alike.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/store/on_root.hpp"
#include "adjoin/store/one_folder.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/task/configuration_file.hpp"
#include "adjoin/task/traced_steps.hpp"
#include "adjoin/train/resume.hpp"
#include "adjoin/train/run_files.hpp"
#include "adjoin/train/training_order.hpp"

namespace adjoin::train {
namespace {

constexpr auto kNotedWait = std::chrono::seconds(1);

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Each process of an MPI job looks for the checkpoint of `--resume auto` by itself; all must agree.
void check_all_resume_or_none(const Configuration& configuration, const Communicator& world) {
  const std::vector<int64_t> resuming = numbers_of_all(!configuration.resume.empty(), world);
  const auto count = std::count(resuming.begin(), resuming.end(), 1);
  require(count == 0 || count == world.size(), [&] {
    return "--resume auto: " + std::to_string(count) + " of " + std::to_string(world.size()) +
           " ranks see a checkpoint in " + configuration.out + ", which must be the same folder on all hosts";
  });
}

/// Ends a diverged training before anything of it is saved.
void check_finite(double value, const char* what, int64_t step) {
  if (!std::isfinite(value))
    throw Common<Error>("step " + std::to_string(step) + ": the " + what + " is not finite; a lower --lr may help");
}

/// The mean over the last complete epoch, or over the first one so far.
double train_loss(const RunState& s) {
  return s.position.epoch == 0 && s.epoch_learned > 0 ? s.epoch_loss / static_cast<double>(s.epoch_learned)
                                                      : s.last_epoch_loss;
}

/// Whether a field says nothing about learning, but when it ends, how its work is shared out, or what is written.
bool is_beside_learning(const Field& field) {
  return field.group == "Layout" || field.group == "Output" || field.name == "microbatches" || field.name == "epochs" ||
         field.name == "steps" || field.name == "max_time";
}

/// A finished run cannot be resumed with other options about learning: its folder would describe a training that never
/// happened.
void check_learns_nothing_new(const Configuration& saved, const Configuration& given) {
  for (const Field& field : fields()) {
    const bool differs = std::visit([&](auto member) { return member(saved) != member(given); }, field.member);
    require(!differs || is_beside_learning(field), [&] {
      return "--resume " + given.resume + ": the run is over, so " + option_of(field.name) +
             " would change nothing; more " + (given.steps > 0 ? "--steps" : "--epochs") +
             " would continue the training" + (given.patience > 0 ? ", unless --patience ends it" : "");
    });
  }
}

/// The configuration with absolute paths, and the values that its "auto" stood for.
Configuration written(Configuration configuration) {
  configuration = with_absolute_paths(std::move(configuration));
  configuration.backend = started_by_mpi() ? Workers::mpi : Workers::threads;
  return configuration;
}

/// Throws: IoError where a file, or a replacement for it, could not be written
void check_writable(const std::filesystem::path& path) {
  if (std::filesystem::exists(path)) OutputFile(path, OutputFile::Mode::append).close();
  const AtomicFile replacement(path);
}

}  // namespace

TrainingRun::TrainingRun(const Configuration& configuration, const Task& task, const Communicator& world,
                         const SavedModel* beginning)
    : configuration_(configuration),
      task_(task),
      samples_(hold_out(configuration, task)),
      world_(also_observed_by(world, timeline_)),
      times_(world),
      trainer_(configuration, task, world_),
      sampler_(make_sampler(configuration, task, samples_)),
      trace_(configuration, trainer_.grid(), timeline_) {
  if (configuration.pp > 1)
    trainer_.observe([this](const pipeline::Action& action, double seconds) { times_.note(action, seconds); });
  if (configuration.same_bits != "off") check_kernels(nn::fixed::promises_of_process(), world_);
  memory_.reset_peak();  // of what was tried
  state_.samples = std::ssize(samples_.train);
  state_.batch = configuration.batch;
  state_.order = order_of(configuration, task, samples_);
  // Held before its checkpoint is read, so that nobody replaces it meanwhile.
  const bool in_place = largest_of_all(root() && resumes_in_place(configuration), world_) != 0;
  if (root() && in_place) folder_.emplace(configuration.out);
  if (in_place) check_one_folder(configuration.out, world_);
  check_all_resume_or_none(configuration, world_);
  if (!configuration.resume.empty())
    resume();
  else if (beginning)
    train::begin_with(*beginning, task, parameters(), configuration.seed);
  else
    trainer_.initialize();
  world_.barrier();  // if some worker cannot use the checkpoint, nothing has changed yet
  first_step_ = state_.step;
  check_traced_steps(configuration, first_step_, total_steps());
  if (root() && !configuration.resume.empty()) say("begins after step " + std::to_string(first_step_));
  on_root(world_, "making " + configuration.out + " ready", [&] { take_folder(); });
  if (!in_place) check_one_folder(configuration.out, world_);
}

void TrainingRun::take_folder() {
  if (!folder_) {
    folder_.emplace(configuration_.out);
    check_earlier_run(configuration_);  // again: another run may have written there since the first check
  }
  check_writable(*folder_ / kMetrics);
  progress_ = std::make_unique<ProgressBar>(total_steps(), state_.step);
}

void TrainingRun::begin_output() {
  if (std::exchange(has_begun_output_, true)) return;
  on_root(world_, "clearing " + configuration_.out, [&] {
    const std::filesystem::path metrics = *folder_ / kMetrics;
    const bool in_place = resumes_in_place(configuration_);
    remove_checkpoints_after(folder_->path(), in_place ? first_step_ : -1);
    if (!in_place || first_step_ < total_steps()) remove_results(folder_->path(), task_);
    write_beginning(folder_->path(), {written(configuration_), first_step_, total_steps()});
    if (!in_place) std::filesystem::remove(*folder_ / kTraceFile);
    const std::filesystem::path earlier = std::filesystem::path(configuration_.resume) / kMetrics;
    if (!in_place && !configuration_.resume.empty() && std::filesystem::exists(earlier))
      write_atomically(metrics, read_text(earlier));
    metrics_.emplace(metrics, first_step_, configuration_.tensorboard ? *folder_ / kTensorBoard : "");
  });
}

void TrainingRun::resume() {
  parallel::Optimizer& optimizer = trainer_.optimizer();  // all workers must make it together
  RunState state;
  read_checkpoint({configuration_.resume, configuration_.step}, world_, [&](const SavedCheckpoint& saved) {
    fail_alike(world_, [&] {
      state = run_state_of(saved.folder / kStateFile, saved.state);
      check_data(configuration_.resume, state, state_);
      check_position(saved.folder / kStateFile, state, sampler_.steps_per_epoch());
      require(state.step <= total_steps() || !resumes_in_place(configuration_), [&] {
        return "--resume " + configuration_.resume + ": the run has made " + std::to_string(state.step) +
               " steps, but " +
               (configuration_.steps > 0 ? "--steps is "
                                         : "--epochs " + std::to_string(configuration_.epochs) + " makes ") +
               std::to_string(total_steps());
      });
      if (state.step >= total_steps() || is_out_of_patience(state))
        check_learns_nothing_new(written(read_configuration(saved.folder / "config.json")), written(configuration_));
    });
    load_state(saved.folder / kWeightsFile, parameters(), {.checkpoint = saved.name});
    load_state(saved.folder / kMomentsFile, optimizer.moments(), {saved.name, optimizer.rule().name});
    optimizer.set_steps_taken(state.step - state.skipped.all);
    best_.clear();  // from a checkpoint that could not be used
    if (!state.validations.best_loss) return;
    best_ = nn::cloned(parameters());
    load_state(saved.folder / kBestFile, best_, {.checkpoint = saved.name});
  });
  state_ = state;
  sampler_.seek(state_.position);
}

bool TrainingRun::is_evaluation_due() const {
  const bool validates = !samples_.validation.empty(), is_last = state_.step == total_steps();
  const int64_t epoch = validates ? sampler_.steps_per_epoch() : 0;
  const int64_t every = configuration_.eval_every > 0 ? configuration_.eval_every : epoch;
  if (interrupted_ || every == 0 || state_.step == 0 || state_.step == state_.evaluated) return false;
  return is_last ? validates : state_.step % every == 0;
}

bool TrainingRun::is_out_of_time() const {
  if (configuration_.max_time == 0) return false;
  return largest_of_all(root() && seconds_since(begun_) >= configuration_.max_time, world_) != 0;
}

bool TrainingRun::is_out_of_patience(const RunState& state) const {
  return configuration_.patience > 0 && state.validations.since_best >= configuration_.patience;
}

std::optional<Summary> TrainingRun::run() {
  const bool is_due = is_evaluation_due();  // an interrupt may have left it for later
  if (is_due) evaluate_and_record();
  const bool is_copied = !configuration_.resume.empty() && !resumes_in_place(configuration_);
  const bool no_step_follows = state_.step == total_steps() || is_out_of_patience(state_);
  if ((is_due || is_copied) && no_step_follows && !interrupted_) save_checkpoint();
  bool is_over = false;
  while (state_.step < total_steps() && !interrupted_ && !is_out_of_patience(state_) && !is_over) {
    trainer_.note_backward(trace_.begin_step(state_.step + 1));
    train_step();
    advance_save();
    if (is_evaluation_due()) evaluate_and_record();
    is_over = is_out_of_time();
    const bool last = state_.step == total_steps() || is_out_of_patience(state_) || is_over;
    const bool epoch_ends = state_.position.step == 0;
    const auto due = [&](int64_t every) { return every > 0 && state_.step % every == 0; };
    if (!interrupted_ &&
        (last || (configuration_.checkpoint_every > 0 ? due(configuration_.checkpoint_every) : epoch_ends)))
      save_checkpoint();
    trace_.end_step(state_.step);
  }
  trace_.end();
  if (!interrupted_) finish_save();  // before the test samples, whose evaluation may take long
  std::optional<Summary> summary;
  if (!interrupted_) summary = finish();
  if (interrupted_) save_checkpoint();
  finish_save();
  return summary;
}

std::vector<int64_t> TrainingRun::next_samples() {
  const lab::TimeSlice slice("data");
  std::vector<int64_t> samples = sampler_.next();
  for (int64_t& sample : samples) sample = samples_.train[static_cast<size_t>(sample)];
  return samples;
}

void TrainingRun::train_step() {
  const lab::TimeSlice slice("step", state_.step + 1);
  times_.begin_step();
  const std::vector<int64_t> samples = next_samples();
  const double rate = learning_rate(configuration_, state_.step, total_steps());
  const double loss_scale = scales_loss() ? state_.loss_scale.value : 1;
  const StepResult result = trainer_.step(samples, state_.step, rate, loss_scale);
  const double seconds = times_.end_step();
  lab::Timeline::Interval interval = timeline_->take();
  const StepTimes times = times_.of_step(interval);
  trace_.add(std::move(interval));

  const auto count = static_cast<int64_t>(samples.size());
  interrupted_ = result.interrupted;
  state_.step += 1;
  state_.position = sampler_.position();
  state_.train_seconds += seconds;
  count_step(result, count);
  begin_output();
  if (state_.position.step == 0) {
    if (state_.epoch_learned > 0)
      state_.last_epoch_loss = state_.epoch_loss / static_cast<double>(state_.epoch_learned);
    state_.epoch_loss = 0;
    state_.epoch_samples = state_.epoch_learned = 0;
  }
  const double of_epoch = static_cast<double>(state_.epoch_samples) / static_cast<double>(state_.samples);
  peak_bytes_ = std::max(peak_bytes_, memory_.peak_bytes());
  const std::string hash = hash_if_due();
  if (!root()) return;
  metrics_->add(StepMetrics{.step = state_.step,
                            .epoch = static_cast<double>(state_.position.epoch) + of_epoch,
                            .loss = result.loss,
                            .measures = result.measures,
                            .learning_rate = rate,
                            .gradient_norm = result.gradient_norm,
                            .tokens_per_second = static_cast<double>(result.tokens) / seconds,
                            .step_seconds = seconds,
                            .times = trainer_.tensor().device().is_cpu() ? std::optional(times) : std::nullopt,
                            .flops_per_second = result.flops > 0 ? std::optional(result.flops / seconds) : std::nullopt,
                            .skipped = result.skipped,
                            .loss_scale = scales_loss() ? std::optional(loss_scale) : std::nullopt,
                            .hash = hash});
  progress_->update(state_.step, result.loss, count);
}

void TrainingRun::count_step(const StepResult& result, int64_t samples) {
  const bool lowered = scales_loss() && state_.loss_scale.adapt(result.skipped);
  state_.skipped.count(state_.step, result.skipped, lowered);
  state_.epoch_samples += samples;
  if (result.skipped) return;
  check_finite(result.loss, "loss", state_.step);
  state_.epoch_loss += result.loss * static_cast<double>(samples);
  state_.epoch_learned += samples;
}

void TrainingRun::evaluate_and_record() {
  const bool validates = !samples_.validation.empty();
  const Evaluation evaluation =
      validates ? trainer_.evaluate(data::Part::train, samples_.validation) : trainer_.evaluate(data::Part::test);
  interrupted_ = evaluation.interrupted;
  if (interrupted_) return;
  const std::string of = validates ? "validation" : "test";
  check_finite(evaluation.loss, (of + " loss").c_str(), state_.step);
  state_.evaluated = state_.step;
  if (validates && state_.validations.count(state_.step, evaluation.loss)) {
    best_.clear();  // before another copy is made
    best_ = nn::cloned(parameters());
  }
  begin_output();
  if (!root()) return;
  metrics_->add(EvaluationMetrics{state_.step, validates, evaluation.loss, evaluation.measures});
  progress_->pause();
  std::string line =
      "step " + std::to_string(state_.step) + "  " + of + " loss " + to_string(Measure{.value = evaluation.loss});
  for (const Measure& measure : evaluation.measures) line += "  " + spoken(measure) + " " + to_string(measure);
  say(line);
}

void TrainingRun::save_checkpoint() {
  const lab::TimeSlice slice("checkpoint");
  begin_output();
  finish_save("waiting at step " + std::to_string(state_.step) +
                  " for the checkpoint before it (--checkpoint-every may be larger)",
              kNotedWait);
  CheckpointContent content{
      .states = {{kWeightsFile, parameters()}, {kMomentsFile, trainer_.optimizer().moments()}},
      .add_files = [this](const auto& folder) { write_model_files(folder, configuration_, task_, trainer_.stages()); },
      .name = new_checkpoint_name(),
      .state = to_json(state_)};
  if (!best_.empty()) content.states.push_back({kBestFile, best_});
  content.state[kCheckpointKey] = content.name;
  const bool in_background = configuration_.save == SaveMode::background;
  save_.emplace(CheckpointSave::Place{configuration_.out, state_.step, configuration_.keep}, content, world_,
                /*copies=*/in_background);
  if (!in_background) finish_save();
}

void TrainingRun::finish_save(const std::string& what, std::chrono::milliseconds note_after) {
  if (!save_) return;
  save_->finish(what, note_after);
  advance_save();
}

void TrainingRun::advance_save() {
  if (!save_ || !save_->advance()) return;
  if (!save_->removed_all() && !std::exchange(warned_, true))
    note("warning: " + configuration_.out + ": an earlier checkpoint cannot be removed; the next save tries again");
  save_.reset();
}

std::vector<RankSummary> TrainingRun::rank_summaries() const {
  int64_t count = 0;
  for (const at::Tensor& weight : trainer_.module().parameters()) count += weight.numel();
  const std::vector<int64_t> counts = numbers_of_all(count, world_), peaks = numbers_of_all(peak_bytes_, world_);
  std::vector<RankSummary> ranks;
  const GridShape& shape = trainer_.grid().shape();
  for (int rank = 0; rank < world_.size(); ++rank) {
    const int pp = shape.coordinates(*shape.cell_of(rank))[static_cast<size_t>(shape.axis_index("pp"))];
    const auto index = static_cast<size_t>(rank);
    ranks.push_back({rank, counts[index], peaks[index], trainer_.stages().stages_at(pp)});
    if (!times_.sums().empty() && trainer_.tensor().device().is_cpu()) ranks.back().times = times_.sums()[index];
  }
  return ranks;
}

std::optional<Summary> TrainingRun::finish() {
  const auto swap_best = [&] {
    if (!best_.empty()) nn::swap_tensors(parameters(), best_);
  };
  swap_best();
  const Evaluation evaluation = trainer_.evaluate(data::Part::test);
  interrupted_ = evaluation.interrupted;
  if (interrupted_) {
    swap_best();  // moments belong to the last weights
    return std::nullopt;
  }
  check_finite(evaluation.loss, "test loss", state_.step);
  if (peak_bytes_ == 0) peak_bytes_ = memory_.peak_bytes();  // resumed without a step left: the evaluation's peak
  Summary summary{.origin = this_origin(),
                  .configuration = written(configuration_),
                  .ranks = rank_summaries(),
                  .train_loss = train_loss(state_),
                  .test_loss = evaluation.loss,
                  .test_measures = evaluation.measures,
                  .test_details = task_.details(evaluation.tally),
                  .expert_rows = evaluation.expert_rows,
                  .train_seconds = state_.train_seconds,
                  .skipped_steps = state_.skipped.all,
                  .validations = state_.validations,
                  .last_step = state_.step};
  if (configuration_.pp > 1 && state_.step > first_step_) summary.pipeline_step = times_.last_actions();
  begin_output();
  save_model(configuration_.out, configuration_, task_, trainer_);
  on_root(world_, "writing " + configuration_.out, [&] {
    progress_->pause();
    metrics_->add(EvaluationMetrics{state_.step, false, evaluation.loss, evaluation.measures});
    write_atomically(*folder_ / kSummary, train::to_json(summary).dump(2) + "\n");
  });
  return summary;
}

}  // namespace adjoin::train
