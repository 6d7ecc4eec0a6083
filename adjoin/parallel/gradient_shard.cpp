#include "adjoin/parallel/gradient_shard.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::parallel {
namespace {

// Each keeps a whole gradient. Where messages are slower than backward, they take its time whatever this number is.
constexpr int64_t kMostRunning = 4;

/// Those whose sums run on this rank, in the order in which they were begun.
thread_local std::vector<GradientShard*> of_thread;

}  // namespace

GradientShard::~GradientShard() {
  std::erase(of_thread, this);
}

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
  finish();
  return shard_.defined() ? std::exchange(shard_, {})
                          : at::zeros({bucket_.size_here()}, reals_of(parameter_.detach()).options());
}

void GradientShard::sum() {
  if (!parameter_.grad().defined()) return;  // nothing was added: the gradient was postponed, or does not exist
  require(!parameter_.grad().is_sparse(),
          [&] { return "the gradient of '" + name_ + "' is sparse; sparse gradients cannot be summed over ranks"; });
  const at::NoGradGuard no_gradient;
  const at::Tensor gradient = plain("gradients", std::exchange(parameter_.mutable_grad(), {}));
  finish();
  whole_ = bucket_.pack({reals_of(gradient)});
  const Communicator& copies = bucket_.copies();
  const at::Tensor mine = bucket_.mine(whole_);
  if (!copies.backend()->spans_hosts()) {
    copies.reduce_scatter(buffer(whole_), buffer(mine), bucket_.sizes());
    return keep_sum();
  }
  while (std::ssize(of_thread) >= kMostRunning) of_thread.front()->finish();
  running_ = copies.begin().reduce_scatter(buffer(whole_), buffer(mine), bucket_.sizes());
  of_thread.push_back(this);
}

void GradientShard::finish() {
  if (!running_) return;
  std::erase(of_thread, this);
  std::exchange(running_, nullptr)->wait();
  keep_sum();
}

void GradientShard::keep_sum() {
  const at::NoGradGuard no_gradient;
  const at::Tensor mine = bucket_.mine(std::exchange(whole_, {}));
  if (shard_.defined())
    shard_.add_(mine);
  else
    shard_ = mine.clone();
}

}  // namespace adjoin::parallel
