#include "adjoin/parallel/gradient_sums.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::parallel {

GradientSums::GradientSums(std::vector<nn::Parameter> trained, const std::vector<std::vector<size_t>>& buckets,
                           Communicator group, Options options, std::function<void(size_t bucket)> complete)
    : parameters_(std::move(trained)),
      group_(std::move(group)),
      options_(std::move(options)),
      complete_(std::move(complete)),
      weights_(parameters_.size()) {
  for (const nn::Parameter& parameter : parameters_) reals_.push_back(reals_of(parameter));
  for (const std::vector<size_t>& members : buckets) {
    for (const size_t i : members) weights_[i].bucket = sums_.size();
    sums_.push_back({Bucket(reals_, members)});
  }
  for (size_t i = 0; i < options_.tables.size(); ++i) weights_[i].table = options_.tables[i];
  for (size_t i = 0; i < parameters_.size(); ++i) hooks_.emplace_back(parameters_[i].tensor, [this, i] { added(i); });
}

void GradientSums::begin(bool sums, double scale) {
  if (!std::exchange(began_, true))
    for (size_t i = 0; i < weights_.size(); ++i) {
      weights_[i].before = std::exchange(parameters_[i].tensor.mutable_grad(), {});
      if (weights_[i].table) weights_[i].table->forget_gradients();
    }
  for (Weight& weight : weights_) weight.added = 0;
  now_ = sums ? Now::summing : Now::adding;
  scale_ = scale;
  for (Sum& sum : sums_) {
    sum.missing = sum.bucket ? sum.bucket->members().size() : 0;
    sum.is_sent = !sum.bucket;
  }
}

void GradientSums::added(size_t i) {
  require(now_ != Now::idle, [&] {
    return options_.who + ": the gradient of '" + parameters_[i].name + "' was computed on this rank alone: call " +
           options_.who +
           "::backward(mean_loss, samples) instead of the loss's own backward, or torch::autograd::grad for gradients "
           "that you differentiate again";
  });
  if (!parameters_[i].tensor.grad().defined()) return;  // LibTorch calls the hook for gradients that do not exist too
  Weight& weight = weights_[i];
  weight.used = true;
  weight.sparse |= parameters_[i].tensor.grad().is_sparse();
  if (now_ == Now::adding) return;
  ++weight.added;
  Sum& sum = sums_[weight.bucket];
  if (sum.is_sent)
    weight.late = true;
  else if (weight.added == weight.times && --sum.missing == 0)
    complete_(weight.bucket);
}

/// The gradient taken from .grad, or zeros; it may be written to.
at::Tensor GradientSums::taken_gradient(size_t i) {
  const at::Tensor& whole = parameters_[i].tensor;
  at::Tensor& gradient = whole.mutable_grad();
  if (!gradient.defined() || weights_[i].sparse) return at::zeros(whole.sizes(), whole.options());
  const at::Tensor taken = plain(options_.who.c_str(), std::exchange(gradient, {})).contiguous();
  if (scale_ != 1) taken.mul_(scale_);
  return taken;
}

void GradientSums::carry_out(size_t bucket) {
  const at::NoGradGuard no_gradient;
  Sum& sum = sums_[bucket];
  sum.is_sent = true;
  if (!sum.bucket) return;
  std::vector<at::Tensor> gradients(weights_.size());
  for (const size_t i : sum.bucket->members()) {
    const at::Tensor taken = taken_gradient(i);
    gradients[i] = reals_of(taken);
    if (!options_.to_owners) weights_[i].gradient = taken;
  }
  sum.packed = sum.bucket->pack(gradients);
  send(sum);
  if (!sum.handle) receive(sum);
}

void GradientSums::send(Sum& sum) {
  const bool is_complex = parameters_[sum.bucket->members()[0]].tensor.is_complex();
  const at::ScalarType type = sum.packed.scalar_type();
  const bool is_cast = options_.wire && !is_complex && (type == at::kFloat || type == at::kDouble);
  sum.wire = is_cast && group_.size() > 1 ? sum.packed.to(*options_.wire) : sum.packed;
  if (group_.size() == 1) return;
  const auto make = [&](const auto& group) {
    return options_.to_owners
               ? group.reduce_scatter(buffer(sum.wire), buffer(sum.bucket->mine(sum.wire)), sum.bucket->sizes())
               : group.all_reduce(buffer(sum.wire));
  };
  if (options_.stream)
    sum.handle = make(*options_.stream);
  else
    make(group_);
}

void GradientSums::receive(Sum& sum) {
  if (sum.handle) std::exchange(sum.handle, std::nullopt)->wait();
  std::vector<at::Tensor> results(weights_.size());
  if (options_.to_owners) {
    sum.bucket->take_shards(sum.bucket->mine(sum.wire), results);
  } else {
    if (!sum.wire.is_same(sum.packed)) sum.packed.copy_(sum.wire);
    for (const size_t i : sum.bucket->members()) results[i] = reals_of(weights_[i].gradient);
    sum.bucket->unpack(sum.packed, results);
  }
  for (const size_t i : sum.bucket->members()) {
    Weight& weight = weights_[i];
    const at::Tensor result = options_.to_owners ? results[i] : std::exchange(weight.gradient, {});
    if (weight.sum.defined())
      weight.sum.add_(result);
    else  // the shards are in the memory of all
      weight.sum = options_.to_owners ? result.to(sum.packed.scalar_type(), false, /*copy=*/true) : result;
  }
  sum.wire = sum.packed = at::Tensor();
}

/// A flag of a weight that is true on any rank becomes true on all.
void GradientSums::join_flags() {
  std::vector<uint8_t> flags;
  for (const Weight& weight : weights_) {
    const bool has_rows = weight.table != nullptr && weight.table->has_gradients();
    flags.insert(flags.end(), {static_cast<uint8_t>(has_rows ? 2 : weight.used), weight.late, weight.sparse});
  }
  group_.all_reduce(buffer(flags), Reduction::max);
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i].used = flags[3 * i] != 0;
    weights_[i].has_rows = flags[3 * i] == 2;
    weights_[i].late = flags[3 * i + 1] != 0;
    weights_[i].sparse = flags[3 * i + 2] != 0;
  }
  for (size_t i = 0; i < weights_.size(); ++i)
    require(!weights_[i].sparse, [&] {
      return options_.who + ": the gradient of '" + parameters_[i].name +
             "' is sparse; sparse gradients cannot be summed over ranks";
    });
}

void GradientSums::finish() {
  const at::NoGradGuard no_gradient;
  for (Sum& sum : sums_)
    if (sum.handle) receive(sum);
  join_flags();
  for (size_t i = 0; i < weights_.size(); ++i) {
    Weight& weight = weights_[i];
    if (std::exchange(weight.has_rows, false)) {
      sums_[weight.bucket].bucket.reset();
      const at::Tensor rows = weight.table->sum_gradients(scale_, options_.wire).view({-1});
      weight.sum = weight.sum.defined() ? weight.sum.add_(rows) : rows;
    }
    if (!std::exchange(weight.late, false)) continue;
    Sum rest{Bucket(reals_, {i})};
    const at::Tensor taken = taken_gradient(i);
    if (!options_.to_owners) weight.gradient = taken;
    std::vector<at::Tensor> gradients(weights_.size());
    gradients[i] = reals_of(taken);
    rest.packed = rest.bucket->pack(gradients);
    send(rest);
    receive(rest);
  }
}

void GradientSums::give(double factor, const std::vector<at::Tensor>& targets) {
  const at::NoGradGuard no_gradient;
  for (size_t i = 0; i < weights_.size(); ++i) {
    Weight& weight = weights_[i];
    const at::Tensor& target = targets[i];
    if (!options_.to_owners) target.mutable_grad() = weight.before;
    if (!weight.used || !weight.sum.defined()) continue;
    // Not a view of the sum: an optimizer's zero_grad could not detach the gradient of a view.
    at::Tensor sum = !options_.to_owners ? weight.sum
                     : target.is_complex()
                         ? at::view_as_complex(at::_unsafe_view(weight.sum, with_pairs(target.sizes().vec())))
                         : at::_unsafe_view(weight.sum, target.sizes());
    if (factor != 1) sum.mul_(factor);
    at::Tensor& gradient = target.mutable_grad();
    if (gradient.defined())  // it may be a part of one memory for all gradients
      gradient.add_(sum);
    else
      gradient = sum;
  }
  end_step();
}

void GradientSums::forget() {
  for (size_t i = 0; i < weights_.size(); ++i)
    if (began_) parameters_[i].tensor.mutable_grad() = weights_[i].before;
  end_step();
}

void GradientSums::end_step() {
  for (Weight& weight : weights_) {
    Weight next;
    next.bucket = weight.bucket;
    next.table = weight.table;
    next.times = weight.added > 0 ? weight.added : weight.times;
    weight = std::move(next);
  }
  for (Sum& sum : sums_) {
    sum.handle.reset();
    sum.packed = sum.wire = at::Tensor();
  }
  began_ = false;
  now_ = Now::idle;
}

void GradientSums::check_sizes() const {
  for (size_t i = 0; i < hooks_.size(); ++i)
    require(hooks_[i].is_intact(), [&] {
      return options_.who + ": '" + parameters_[i].name + "' has another size or type than when " + options_.who +
             " was made: make a new one";
    });
}

}  // namespace adjoin::parallel
