#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
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
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/measure.hpp"
#include "adjoin/train/text/text_source.hpp"

namespace adjoin::train {

/// What a worker computes at once: its part of a global batch, or some of that.
struct MicroBatch {
  at::Tensor input;    ///< of the first segment
  at::Tensor target;   ///< what the loss compares the last segment's output with
  ForwardPass pass;    ///< the step, and the rows of the input
  int64_t tokens = 0;  ///< that are gone through
  bool output_is_per_token =
      false;  ///< the last segment's output and the target have a row a token, not a row a sample
};

/// A model's parameters and buffers on the grid {dp, ep, cp, tp} of its stage. Those of a plain module of torch::nn are copied
/// along dp, ep and cp, whose ranks have samples or rows of their own, and replicated along tp.
std::vector<nn::Parameter> parameters_of(const models::Model& model);

/// A file of a model's folder, beside weights and configuration.
struct TaskFile {
  std::string name, content;
};

/// What a model says of a text.
struct Prediction {
  std::string label{};               ///< the name of the class, where there are classes
  std::string what = "probability";  ///< the name of the value
  double value = 0;
  std::vector<std::pair<std::string, double>> classes{};  ///< all, the likeliest first, with their probabilities
};

/// How the rows of a configuration's model lie.
models::RowOptions row_options(const Configuration& configuration);
/// Its experts.
models::ExpertOptions expert_options(const Configuration& configuration);

/// What a model is trained for: data, model, loss and measures. The training loop knows no more of them than stands here.
///
/// All workers have the same task, and it is used by several threads at once. Of its functions only those that are given a
/// batch's output and the grid may communicate.
class Task {
 public:
  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// The samples of a part, and the rows of activations of each; none where they are about as long.
  virtual int64_t size(data::Part part) const = 0;
  virtual std::vector<int64_t> lengths(data::Part) const { return {}; }

  /// The model's pieces, in their order. Each rank makes those of its own stage, on a grid {dp, ep, cp, tp}.
  virtual std::vector<models::Segment> segments() const = 0;
  /// The same task for a configuration that differs in its layout alone, without reading data again; none where the task has to be
  /// made anew for that.
  virtual std::unique_ptr<Task> laid_out(const Configuration&) const { return nullptr; }
  /// How the rows of samples are split over context-parallel ranks so that these have equally much to do.
  virtual Rows split_rows(const std::vector<int64_t>& lengths, int ranks) const {
    return Rows::balanced(lengths, ranks);
  }

  /// The samples `samples[mine.begin]` and on of a global batch, of which it may have none. Of `step` only the place of the first
  /// sample is still to be said.
  virtual MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                                 Step step) const = 0;

  /// How many samples or tokens the loss of a global batch is the mean of.
  virtual double loss_denominator(data::Part, std::span<const int64_t> samples) const {
    return static_cast<double>(samples.size());
  }
  /// The sum of the losses of a micro-batch's samples or tokens, a scalar that is differentiable, on each rank along tp.
  virtual at::Tensor loss(const at::Tensor& output, const MicroBatch& batch, const Grid& grid) const = 0;

  /// Numbers of a micro-batch that add up over workers and micro-batches, always as many; and the measures of the mean loss
  /// and their sum. batch.pass.step.training says whether it is a step of the training or an evaluation, which may count more.
  virtual std::vector<double> tally(const at::Tensor&, const MicroBatch&) const { return {}; }
  virtual std::vector<Measure> measures(double /*loss*/, std::span<const double> /*tally*/,
                                        double /*denominator*/) const {
    return {};
  }

  /// Of the model, for people: "2 blocks of 64 features and 4 heads".
  virtual std::string description() const { return ""; }
  /// What a model's folder holds so that the model can be used without the data.
  virtual std::vector<TaskFile> files() const { return {}; }

  /// Takes other samples for the test part: those of a source, or texts of which nothing else is known. Not while the task is
  /// used by others. Throws: InvalidArgument where the source cannot be read, or the task knows no texts
  virtual void read_test(const TextSource& source);
  virtual void take_texts(std::span<const std::string> texts);
  /// Of each sample of a micro-batch, on each rank along tp.
  virtual std::vector<Prediction> predictions(const at::Tensor& output, const MicroBatch& batch,
                                              const Grid& grid) const;

  /// What an evaluation's tally tells beside the measures: a text of at most so many columns, and numbers by name.
  virtual std::string report(std::span<const double> /*tally*/, size_t /*columns*/) const { return ""; }
  virtual nlohmann::ordered_json details(std::span<const double> tally) const;
};

/// Of what a task writes into a model's folder, the content of the file of this name; "" where there is none.
std::string content_of_file(const Task& task, std::string_view name);

/// A task's model as one worker has it, of tensors that have shapes and no memory.
models::Model described_model(const Task& task);

/// What a context-parallel rank has of a micro-batch: some rows of each sample, and their targets or those of some samples.
/// Throws: InvalidArgument where the batch does not say which sample and token each row is
MicroBatch context_parallel_part(MicroBatch batch, const Task& task, const Communicator& cp);

/// Makes a task, in each process of a job.
using TaskMaker = std::function<std::unique_ptr<Task>(const Configuration& configuration)>;

}  // namespace adjoin::train
