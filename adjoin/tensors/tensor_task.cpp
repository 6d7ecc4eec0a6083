#include "adjoin/tensors/tensor_task.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <set>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/program/declared.hpp"

namespace adjoin::train {
namespace {

/// How many numbers of a tensor belong to one sample.
double numbers_of_sample(const at::Tensor& x) {
  return static_cast<double>(c10::multiply_integers(x.sizes().slice(1)));
}

TensorSet limited(const TensorSet& set, int64_t samples) {
  return samples > 0 ? set.part(0, samples) : set;
}

}  // namespace

std::unique_ptr<Task> TensorTask::make(const Configuration& configuration) {
  auto task = std::make_unique<TensorTask>(std::make_shared<const ProgramNet>(configuration), configuration);
  const TensorParts read = read_tensor_parts(configuration.data, configuration.test);
  for (const auto& [part, set] : {std::pair(data::Part::train, &read.train), std::pair(data::Part::test, &read.test)})
    task->parts_[part] = task->in_order(limited(*set, configuration.samples), task->has_target());
  return task;
}

std::unique_ptr<Task> TensorTask::open(const Configuration& configuration, const std::filesystem::path&) {
  return std::make_unique<TensorTask>(std::make_shared<const ProgramNet>(configuration), configuration);
}

std::unique_ptr<Task> TensorTask::laid_out(const Configuration& configuration) const {
  auto task = std::make_unique<TensorTask>(net_->laid_out(configuration), configuration);
  task->parts_ = parts_;
  return task;
}

int64_t TensorTask::size(data::Part part) const {
  const auto found = parts_.find(part);
  return found == parts_.end() ? 0 : found->second.front().size(0);
}

std::vector<models::Segment> TensorTask::segments_for(int stages, const Communicator& world) const {
  return net_->segments(stages, world, [this](const at::Tensor& input) {
    const at::Tensor numbers = input.cpu();
    const std::vector<at::Tensor>& tensors = parts_.at(static_cast<data::Part>(numbers[0].item<int64_t>()));
    std::vector<at::Tensor> inputs;
    for (size_t i = 0; i < net_->inputs().size(); ++i)
      inputs.push_back(tensors[i].index_select(0, numbers.slice(0, 1)));
    return inputs;
  });
}

MicroBatch TensorTask::micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                                   Step step) const {
  const auto own = samples.subspan(static_cast<size_t>(mine.begin), static_cast<size_t>(mine.count));
  std::vector<int64_t> input{
      static_cast<int64_t>(part)};  // and then the numbers of the samples, which the segment looks up
  input.insert(input.end(), own.begin(), own.end());
  step.first_sample = mine.begin;
  MicroBatch batch{.input = at::tensor(input, at::kLong), .target = {}, .pass = {step, {}}, .tokens = mine.count};
  if (has_target() && parts_.at(part).size() > net_->inputs().size())
    batch.target = parts_.at(part).back().index_select(0, batch.input.slice(0, 1));
  return batch;
}

at::Tensor TensorTask::loss(const at::Tensor& output, const MicroBatch& batch, const Grid&) const {
  if (!has_target()) return output * static_cast<double>(batch.tokens);  // a mean over the samples of all ranks
  // The mean of an evaluation is exact: the same on any layout.
  const at::Tensor scores =
      batch.pass.step.training && output.scalar_type() != at::kHalf && output.scalar_type() != at::kBFloat16
          ? output
          : output.to(batch.pass.step.training ? at::kFloat : at::kDouble);
  const double of_sample = numbers_of_sample(batch.target);
  if (configuration_.loss == TensorLoss::cross_entropy)
    return at::cross_entropy_loss(scores, batch.target, {}, at::Reduction::Sum) / of_sample;
  const at::Tensor target = batch.target.to(scores.scalar_type());
  return (configuration_.loss == TensorLoss::mse
              ? at::mse_loss(scores, target, at::Reduction::Sum)
              : at::binary_cross_entropy_with_logits(scores, target, {}, {}, at::Reduction::Sum)) /
         of_sample;
}

std::vector<double> TensorTask::tally(const at::Tensor& output, const MicroBatch& batch) const {
  if (!has_target()) return {};
  const at::Tensor target = batch.target.to(output.device());
  if (configuration_.loss == TensorLoss::mse) {
    const at::Tensor y = target.to(at::kDouble), error = output.to(at::kDouble) - y;
    return {(error * error).sum().item<double>(), y.sum().item<double>(), (y * y).sum().item<double>(),
            static_cast<double>(y.numel())};
  }
  const at::Tensor right =
      configuration_.loss == TensorLoss::cross_entropy ? output.argmax(1).eq(target) : output.gt(0).eq(target.gt(0.5));
  return {right.sum().item<double>() / numbers_of_sample(target)};
}

std::vector<Measure> TensorTask::measures(double, std::span<const double> tally, double samples) const {
  if (tally.empty()) return {};
  if (configuration_.loss != TensorLoss::mse)
    return {{.name = "accuracy", .value = samples > 0 ? tally[0] / samples : 0, .is_part = true}};
  const double spread = tally[2] - tally[1] * tally[1] / std::max(1.0, tally[3]);
  return {{.name = "r2", .value = spread > 0 ? 1 - tally[0] / spread : 0}};
}

std::vector<at::Tensor> TensorTask::in_order(const TensorSet& set, bool has_target) const {
  std::vector<std::string> names;
  for (const auto& input : net_->inputs()) names.push_back('"' + input.name + '"');
  std::set<std::string> rest;
  for (const auto& [name, tensor] : set.tensors) rest.insert(name);
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < net_->inputs().size(); ++i) {
    const ProgramNet::Input& input = net_->inputs()[i];
    std::string name = input.name;
    if (!rest.contains(name) && i == 0) name = "x";
    if (!rest.contains(name) && i > 0 && i + 1 == net_->inputs().size() && !this->has_target()) name = "y";
    require(rest.erase(name) == 1, [&] {
      return set.place + ": lacks \"" + input.name + "\": the program takes " + joined(names) +
             (i == 0 ? ", of which the first may be called \"x\"" : "");
    });
    ProgramNet::check(input, set.tensors.at(name), set.place + ": \"" + name + "\"");
    tensors.push_back(set.tensors.at(name));
  }
  if (has_target) {
    require(rest.erase("y") == 1,
            [&] { return set.place + ": lacks the target \"y\" of --loss " + text_of("loss", configuration_); });
    check_target(set.tensors.at("y"), set.place);
    tensors.push_back(set.tensors.at("y"));
  } else if (this->has_target()) {
    rest.erase("y");
  }
  require(rest.empty(),
          [&] { return set.place + ": \"" + *rest.begin() + "\" is no input: the program takes " + joined(names); });
  return tensors;
}

void TensorTask::check_target(const at::Tensor& y, const std::string& place) const {
  const program::TensorSpec& output = net_->output();
  const bool has_classes = configuration_.loss == TensorLoss::cross_entropy;
  const auto refuse = [&](const std::string& what) {
    throw InvalidArgument(place + ": \"y\" is " + c10::toString(y.scalar_type()) + " [" + sizes_of_samples(y) +
                          "], and --loss " + text_of("loss", configuration_) + " of the output " +
                          program::to_string(output) + " needs " + what);
  };
  std::vector<program::Size> wanted = output.sizes;
  if (has_classes && wanted.size() < 2) refuse("an output [samples, classes]");
  if (has_classes) wanted.erase(wanted.begin() + 1);
  bool fits = y.dim() == std::ssize(wanted);
  for (size_t dim = 1; fits && dim < wanted.size(); ++dim)
    fits = !wanted[dim].is_fixed || *wanted[dim].example == y.size(static_cast<int64_t>(dim));
  if (!fits) refuse(has_classes ? "the number of a class for each sample" : "targets of the output's shape");
  if (!has_classes) {
    if (y.is_complex()) refuse("real numbers");
    if (configuration_.loss == TensorLoss::bce && !(y.ge(0).logical_and(y.le(1))).all().item<bool>())
      refuse("numbers from 0 to 1");
    return;
  }
  if (y.scalar_type() != at::kLong) refuse("classes as int64");
  const program::Size& classes = output.sizes[1];
  const int64_t least = y.min().item<int64_t>(), most = y.max().item<int64_t>();
  if (least < 0 || (classes.is_fixed && most >= *classes.example))
    refuse("classes from 0 on that it has a score for, not " + std::to_string(least < 0 ? least : most));
}

void TensorTask::read_test(const TextSource& source) {
  const TensorSet set = source.splits ? read_tensor_parts(source.data, "").test : read_test_tensors(source.data);
  parts_[data::Part::test] = in_order(limited(set, source.samples), has_target());
}

void TensorTask::take(const TensorSet& inputs) {
  require(has_target(), [&] { return net_->path() + ": returns its loss, and no scores to predict"; });
  parts_[data::Part::test] = in_order(inputs, /*has_target=*/false);
}

TextSource measured_tensors(const TextSource& given, const std::string& test, const Configuration& run) {
  TextSource source = given;
  const bool names_none = given.data.empty() && test.empty();
  if (names_none && source.samples == 0) source.samples = run.samples;
  if (names_none) source.data = run.test.empty() ? run.data : run.test;
  if (!test.empty()) source.data = test;
  std::error_code missing;
  source.splits = test.empty() && run.test.empty() && std::filesystem::equivalent(source.data, run.data, missing);
  return source;
}

}  // namespace adjoin::train
