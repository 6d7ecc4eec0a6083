#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/data/sampler.hpp"
#include "adjoin/data/samples.hpp"
#include "adjoin/models/model.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/measure.hpp"
#include "adjoin/task/prediction.hpp"
#include "adjoin/task/task_maker.hpp"
#include "adjoin/task/text_source.hpp"

namespace adjoin::train {

/// What a worker computes at once: its part of a global batch, or a part of that.
struct MicroBatch {
  at::Tensor input;    ///< of the first segment
  at::Tensor target;   ///< what the loss compares the last segment's output with
  ForwardPass pass;    ///< the step, and the rows of the input
  int64_t tokens = 0;  ///< number of tokens
  /// How many samples of the rows each sample of the batch has, as a sequence of several texts; empty: one.
  std::vector<int64_t> pieces = {};
  double loss_factor = 1;  ///< for a task whose samples weigh differently: what makes the loss their weighted mean
};

/// A model's parameters and buffers on the grid {dp, ep, cp, tp} of its stage. Those of a plain module of torch::nn are copied
/// along replica, ep and cp, where ranks have different samples or rows, and replicated along tp.
std::vector<nn::Parameter> parameters_of(const models::Model& model);

/// The name of a task that gives none.
inline constexpr const char* kOwnTask = "own";

/// A file of a model's folder, besides weights and configuration.
struct TaskFile {
  std::string name, content;
};

/// How the rows of a configuration's model are split.
models::TokenRowOptions row_options(const Configuration& configuration);
/// The experts of a configuration's model.
models::ExpertOptions expert_options(const Configuration& configuration);

/// What a model is trained for: data, model, loss and measures. The training loop knows of these only what is here.
///
/// All workers have the same task, and several threads use it at once. Only functions that get a batch's output and the grid
/// may communicate.
class Task {
 public:
  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// The name of the task, which the folders of its runs have. "" if the program `adjoin` knows it by --model.
  virtual std::string name() const { return kOwnTask; }

  /// The number of samples of a part, and the rows of activations of each sample; empty if all have about the same number.
  virtual int64_t size(data::Part part) const = 0;
  virtual std::vector<int64_t> lengths(data::Part) const { return {}; }

  /// The only number of samples that the model takes at once, if it takes no others.
  virtual std::optional<int64_t> samples_at_once() const { return std::nullopt; }
  /// Whether the micro-batches of all ranks are together one batch of the model. They are then samples of the global batch that follow
  /// one another; else each rank divides its own part.
  virtual bool is_computed_together() const { return false; }

  /// The model's segments, in order. Each rank makes those of its own stage, on a grid {dp, ep, cp, tp}.
  virtual std::vector<models::Segment> segments() const = 0;
  /// The same for so many stages: a model that can be cut anywhere has a segment for each of them, which take nearly equal times on
  /// the first rank of `world`. All ranks of it call the function together.
  virtual std::vector<models::Segment> segments_for(int /*stages*/, const Communicator& /*world*/) const {
    return segments();
  }
  /// The most stages that a plan tries.
  virtual int64_t most_stages() const { return std::ssize(segments()); }
  /// The same task for a configuration that differs only in its layout, without reading data again; null if the task must be
  /// made anew.
  virtual std::unique_ptr<Task> laid_out(const Configuration&) const { return nullptr; }
  /// How the rows of samples are split over context-parallel ranks, so that all have the same amount of work.
  virtual TokenRows split_rows(const std::vector<int64_t>& lengths, int ranks) const {
    return TokenRows::balanced(lengths, ranks);
  }

  /// Makes a micro-batch of the samples from `samples[mine.begin]` on of a global batch; it may be empty. `step` is complete
  /// except for the place of the first sample. Floating-point inputs and targets may have any type: they are converted to that
  /// of the weights.
  virtual MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                                 Step step) const = 0;

  /// Whether the last segment's output, the target and the loss have a row for each token, not for each sample.
  virtual bool output_is_per_token() const { return false; }
  /// How many samples or tokens the loss of a global batch is the mean of.
  virtual double loss_denominator(data::Part, std::span<const int64_t> samples) const {
    return static_cast<double>(samples.size());
  }
  /// The sum of the losses of a micro-batch's samples or tokens: a differentiable scalar, on each rank along tp.
  virtual at::Tensor loss(const at::Tensor& output, const MicroBatch& batch, const Grid& grid) const = 0;

  /// `tally`: numbers of a micro-batch that are summed over workers and micro-batches, always the same number of them.
  /// `measures`: the measures that follow from the mean loss and that sum. batch.pass.step.training distinguishes training
  /// steps from evaluations, which may count more.
  virtual std::vector<double> tally(const at::Tensor&, const MicroBatch&) const { return {}; }
  virtual std::vector<Measure> measures(double /*loss*/, std::span<const double> /*tally*/,
                                        double /*denominator*/) const {
    return {};
  }

  /// A description of the model for people: "2 blocks of 64 features and 4 heads".
  virtual std::string description() const { return ""; }
  /// How the names of the parameters begin that are drawn although a training begins with the model of another task of this
  /// kind: those that mean something else there.
  virtual std::vector<std::string> other_parameters(const Task& /*beginning*/) const { return {}; }
  /// The files in a model's folder that allow using the model without the data.
  virtual std::vector<TaskFile> files() const { return {}; }

  /// Replaces the samples of the test part: by those of a source, or by texts without labels. Not while others use the task.
  /// Throws: InvalidArgument where the source cannot be read, or the task does not work on texts
  virtual void read_test(const TextSource& source);
  virtual void take_texts(std::span<const std::string> texts);
  /// Where a text that take_texts got last is longer than the model reads at once.
  virtual std::optional<CutText> cut_of(int64_t /*text*/) const { return std::nullopt; }
  /// The predictions for each sample of a micro-batch, on each rank along tp.
  virtual std::vector<Prediction> predictions(const at::Tensor& output, const MicroBatch& batch,
                                              const Grid& grid) const;

  /// What an evaluation's tally gives besides the measures: a text of at most `columns` columns, and numbers by name.
  virtual std::string report(std::span<const double> /*tally*/, size_t /*columns*/) const { return ""; }
  virtual nlohmann::ordered_json details(std::span<const double> tally) const;
};

/// The content of the file of this name among those that a task writes into a model's folder; "" if there is none.
std::string content_of_file(const Task& task, std::string_view name);

/// One worker's model of a task, whose tensors have shapes and no memory.
models::Model described_model(const Task& task);

/// Micro-batch `number` of the `count` micro-batches of a rank's part of a global batch of `samples` samples.
data::BatchPart part_of_batch(const Task& task, int64_t samples, const Grid& grid, int number = 0, int count = 1);

/// The micro-batch of the samples of a part of a global batch. Of a context-parallel group each
/// rank gets some rows of each sample, with their targets, or with the targets of some samples. Floating-point inputs and targets
/// are converted to the type of the weights, `tensor`, and the input comes on its device; the target stays on the CPU.
/// Where the thread keeps a fixed order, its blocks say which rows.
/// Throws: InvalidArgument where the ranks along cp cannot share the rows, as the task does not give the sample and token of each
MicroBatch micro_batch_of(const Task& task, data::Part part, std::span<const int64_t> samples,
                          const data::BatchPart& mine, Step step, const at::TensorOptions& tensor, const Grid& grid);

/// The task's loss of a micro-batch, whose target goes to the output's device.
/// Throws: InvalidArgument where context-parallel ranks have outputs that do not belong to their targets
at::Tensor loss_of(const Task& task, const at::Tensor& output, const MicroBatch& batch, const Grid& grid);

/// Throws: InvalidArgument for a segment whose output does not have the shape that it says, if it says one
void check_output_shape(const models::Segment& segment, const at::Tensor& output, const Grid& stage,
                        const LocalTokenRows& rows);

/// Throws: InvalidArgument where the samples of a task of one's own have too few rows for the configuration's --cp, or none
void check_rows(const Configuration& configuration, const Task& task);

}  // namespace adjoin::train
