#include "adjoin/parallel/adamw.hpp"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <cmath>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::parallel {
namespace {

// A parameter of at least so many elements travels alone, without a copy; the cost of a message is then small beside
// it.
constexpr int64_t kLarge = 1 << 16;

at::Tensor gradient_of(const nn::Parameter& parameter) {
  const at::Tensor& gradient = parameter.tensor.grad();
  return (gradient.defined() ? gradient : at::zeros_like(parameter.tensor)).reshape({-1});
}

}  // namespace

DataParallelAdamW::DataParallelAdamW(std::vector<nn::Parameter> parameters, Communicator data_group,
                                     Communicator model_group, AdamWOptions options)
    : data_group_(std::move(data_group)), model_group_(std::move(model_group)), options_(options) {
  std::array<Bucket, 4> small;
  std::optional<at::ScalarType> type;
  for (nn::Parameter& parameter : parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    if (!type) type = parameter.tensor.scalar_type();
    require(parameter.tensor.scalar_type() == *type,
            [&] { return "AdamW: expected parameters of one element type, got " + parameter.name + " of another"; });
    const bool decays = parameter.tensor.dim() > 1, cut = parameter.shard.split.has_value();
    Bucket single{{}, decays, cut, {}, {}, {}, {}, 0};
    const bool large = parameter.tensor.numel() >= kLarge;
    Bucket& bucket = large ? single : small[static_cast<size_t>(2 * decays + cut)];
    bucket.decays = decays;
    bucket.cut = cut;
    bucket.parameters.push_back(std::move(parameter));
    if (large) add(std::move(single));
  }
  for (Bucket& bucket : small)
    if (!bucket.parameters.empty()) add(std::move(bucket));
}

void DataParallelAdamW::add(Bucket bucket) {
  const at::NoGradGuard no_gradient;
  if (bucket.parameters.size() == 1) {
    bucket.values = bucket.parameters[0].tensor.detach().view({-1});
  } else {
    std::vector<at::Tensor> pieces;
    for (const nn::Parameter& parameter : bucket.parameters) pieces.push_back(parameter.tensor.detach().reshape({-1}));
    bucket.values = at::cat(pieces);
    int64_t begin = 0;
    for (nn::Parameter& parameter : bucket.parameters) {
      const int64_t count = parameter.tensor.numel();
      parameter.tensor.set_data(bucket.values.narrow(0, begin, count).view(parameter.tensor.sizes()));
      begin += count;
    }
  }
  const Split split = Split::balanced(bucket.values.numel(), data_group_.size(), 0);
  bucket.counts = split.sizes();
  bucket.begin = split.offset(data_group_.rank());
  bucket.first = at::zeros({split.size(data_group_.rank())}, bucket.values.options());
  bucket.second = at::zeros_like(bucket.first);
  buckets_.push_back(std::move(bucket));
}

double DataParallelAdamW::step(double learning_rate) {
  const at::NoGradGuard no_gradient;
  std::vector<at::Tensor> gradients;
  for (const Bucket& bucket : buckets_) gradients.push_back(reduced_gradients(bucket));
  const double norm = global_norm(gradients);
  if (options_.clip > 0 && norm > options_.clip)
    for (const at::Tensor& gradient : gradients) gradient.mul_(options_.clip / norm);
  ++steps_;
  update(gradients, learning_rate);
  for (const Bucket& bucket : buckets_) {
    if (data_group_.size() > 1)
      data_group_.all_gather(as_buffer(bucket.part(bucket.values, data_group_.rank())), as_buffer(bucket.values),
                             bucket.counts);
    for (const nn::Parameter& parameter : bucket.parameters) parameter.tensor.mutable_grad().reset();
  }
  return norm;
}

at::Tensor DataParallelAdamW::reduced_gradients(const Bucket& bucket) const {
  std::vector<at::Tensor> pieces;
  for (const nn::Parameter& parameter : bucket.parameters) pieces.push_back(gradient_of(parameter));
  const at::Tensor whole = pieces.size() == 1 ? pieces[0] : at::cat(pieces);
  const at::Tensor part = bucket.part(whole, data_group_.rank());
  if (data_group_.size() > 1) data_group_.reduce_scatter(as_buffer(whole), as_buffer(part), bucket.counts);
  return part;
}

double DataParallelAdamW::global_norm(const std::vector<at::Tensor>& gradients) const {
  std::array<double, 2> squares{};  // of what every worker of the model group holds, and of what it cuts
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const double norm = at::linalg_vector_norm(gradients[i]).item<double>();
    squares[buckets_[i].cut] += norm * norm;
  }
  data_group_.all_reduce(buffer(squares));
  std::array<double, 1> cut{squares[1]};
  model_group_.all_reduce(buffer(cut));
  return std::sqrt(squares[0] + cut[0]);
}

void DataParallelAdamW::update(const std::vector<at::Tensor>& gradients, double learning_rate) {
  for (const bool decays : {false, true}) {
    std::vector<at::Tensor> values, chosen, first, second, steps;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      const Bucket& bucket = buckets_[i];
      if (bucket.decays != decays || gradients[i].numel() == 0) continue;
      values.push_back(bucket.part(bucket.values, data_group_.rank()));
      chosen.push_back(gradients[i]);
      first.push_back(bucket.first);
      second.push_back(bucket.second);
      steps.push_back(at::full({}, static_cast<double>(steps_), at::kFloat));
    }
    if (!values.empty())
      at::_fused_adamw_(values, chosen, first, second, /*max_exp_avg_sqs=*/{}, steps, learning_rate, options_.beta1,
                        options_.beta2, decays ? options_.weight_decay : 0.0, options_.epsilon, /*amsgrad=*/false,
                        /*maximize=*/false);
  }
}

std::vector<nn::Parameter> DataParallelAdamW::parameters() const {
  std::vector<nn::Parameter> all;
  for (const Bucket& bucket : buckets_) all.insert(all.end(), bucket.parameters.begin(), bucket.parameters.end());
  return all;
}

at::Tensor DataParallelAdamW::moment(size_t i, Moment moment) const {
  for (const Bucket& bucket : buckets_) {
    if (i >= bucket.parameters.size()) {
      i -= bucket.parameters.size();
      continue;
    }
    at::Tensor whole = bucket.moment(moment);
    if (data_group_.size() > 1) {
      whole = at::empty_like(bucket.values);
      data_group_.all_gather(as_buffer(bucket.moment(moment)), as_buffer(whole), bucket.counts);
    }
    int64_t begin = 0;
    for (size_t before = 0; before < i; ++before) begin += bucket.parameters[before].tensor.numel();
    const at::Tensor& value = bucket.parameters[i].tensor;
    return whole.narrow(0, begin, value.numel()).view(value.sizes());
  }
  throw InvalidArgument("DataParallelAdamW::moment: there is no such parameter");
}

void DataParallelAdamW::load_state(int64_t steps,
                                   const std::function<at::Tensor(const nn::Parameter&, Moment)>& moment) {
  const at::NoGradGuard no_gradient;
  steps_ = steps;
  for (const Bucket& bucket : buckets_)
    for (const Moment which : {Moment::first, Moment::second}) {
      std::vector<at::Tensor> pieces;
      for (const nn::Parameter& parameter : bucket.parameters) pieces.push_back(moment(parameter, which).reshape({-1}));
      bucket.moment(which).copy_(bucket.part(at::cat(pieces), data_group_.rank()));
    }
}

}  // namespace adjoin::parallel
