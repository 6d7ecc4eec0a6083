#include "adjoin/parallel/gradient_shard.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::parallel {

GradientShard::GradientShard(const nn::Parameter& parameter, bool at_once)
    : name_(parameter.name), parameter_(parameter.tensor), bucket_({reals_of(parameter)}, {0}) {
  require(!GradientHook::is_on(parameter_),
          [&] { return "another optimizer already sums the gradient of '" + parameter.name + "'"; });
  hook_.emplace(parameter_, [this, at_once] {
    if (at_once) sum();
  });
}

bool GradientShard::fits(const nn::Parameter& parameter) {
  return is_trained(parameter) && parameter.tensor.dim() > 1 && nn::ranks_of_copies(parameter).size() > 1;
}

at::Tensor GradientShard::take() {
  return shard_.defined() ? std::exchange(shard_, {})
                          : at::zeros({bucket_.size_here()}, reals_of(parameter_.detach()).options());
}

void GradientShard::sum() {
  if (!parameter_.grad().defined()) return;  // nothing was added: the gradient was postponed, or does not exist
  require(!parameter_.grad().is_sparse(),
          [&] { return "the gradient of '" + name_ + "' is sparse; sparse gradients cannot be summed over ranks"; });
  const at::NoGradGuard no_gradient;
  const at::Tensor gradient = plain("gradients", std::exchange(parameter_.mutable_grad(), {}));
  const at::Tensor whole = bucket_.pack({reals_of(gradient)}), mine = bucket_.mine(whole);
  bucket_.copies().reduce_scatter(buffer(whole), buffer(mine), bucket_.sizes());
  if (shard_.defined())
    shard_.add_(mine);
  else
    shard_ = mine.clone();
}

}  // namespace adjoin::parallel
