#include "adjoin/parallel/bucket_sum.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::parallel {
namespace {

// Each keeps a whole gradient. Where messages are slower than backward, they take its time whatever this number is.
constexpr int64_t kMostRunning = 4;

/// Those with each_time whose sums run on this rank, in the order in which they were begun.
thread_local std::vector<BucketSum*> of_thread;

}  // namespace

BucketSum::BucketSum(const std::vector<nn::Parameter>& whole, Bucket bucket, When when)
    : bucket_(std::move(bucket)), when_(when), missing_(bucket_.members().size()) {
  for (const size_t i : bucket_.members()) members_.push_back({whole[i].name, whole[i].tensor});
  if (when_ == When::asked) return;
  for (size_t i = 0; i < members_.size(); ++i) {
    require(!GradientHook::is_on(members_[i].parameter),
            [&] { return "another optimizer already sums the gradient of '" + members_[i].name + "'"; });
    hooks_.emplace_back(members_[i].parameter, [this, i] { added(i); });
  }
}

BucketSum::~BucketSum() {
  std::erase(of_thread, this);
}

bool BucketSum::fits_each_time(const nn::Parameter& parameter) {
  return is_trained(parameter) && parameter.tensor.dim() > 1 && nn::ranks_of_copies(parameter).size() > 1;
}

bool BucketSum::has_gradients() const {
  return std::ranges::any_of(members_, [](const Member& member) { return member.parameter.grad().defined(); });
}

void BucketSum::added(size_t i) {
  Member& member = members_[i];
  ++member.added;
  if (when_ == When::each_time) {
    if (has_gradients()) sum();  // otherwise it was postponed, or does not exist
  } else if (!is_begun_ && member.added == member.times && --missing_ == 0) {
    sum();
  }
}

/// Releases each gradient as soon as it is packed.
at::Tensor BucketSum::pack_gradients() {
  std::vector<at::Tensor> gradients(std::ranges::max(bucket_.members()) + 1);
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    at::Tensor gradient = std::exchange(member.parameter.mutable_grad(), {});
    require(!gradient.defined() || gradient.layout() == at::kStrided, [&] {
      return "the gradient of '" + member.name + "' is sparse; sparse gradients cannot be summed over ranks";
    });
    gradients[bucket_.members()[i]] =
        reals_of(gradient.defined() ? plain("gradients", gradient) : at::zeros_like(member.parameter));
  }
  return bucket_.pack(gradients);
}

void BucketSum::sum() {
  const at::NoGradGuard no_gradient;
  finish();
  is_begun_ = true;
  packed_ = pack_gradients();
  const Communicator& copies = bucket_.copies();
  if (copies.size() == 1) return keep(std::exchange(packed_, {}));
  const auto call = [&](const auto& group) {
    return bucket_.is_cut() ? group.reduce_scatter(buffer(packed_), buffer(bucket_.mine(packed_)), bucket_.sizes())
                            : group.all_reduce(buffer(packed_));
  };
  if (when_ == When::asked || !copies.backend()->spans_hosts()) {
    call(copies);
    return keep(std::exchange(packed_, {}));
  }
  if (when_ == When::each_time) {
    while (std::ssize(of_thread) >= kMostRunning) of_thread.front()->finish();
    of_thread.push_back(this);
  }
  running_ = call(copies.begin());
}

void BucketSum::finish() {
  if (!running_) return;
  std::erase(of_thread, this);
  std::exchange(running_, nullptr)->wait();
  keep(std::exchange(packed_, {}));
}

void BucketSum::keep(const at::Tensor& packed) {
  const at::NoGradGuard no_gradient;
  const at::Tensor mine = bucket_.mine(packed);
  if (sum_.defined())
    sum_.add_(mine);
  else
    sum_ = when_ == When::each_time ? mine.clone() : mine;
}

at::Tensor BucketSum::take() {
  if (when_ == When::each_time) {
    finish();
    for (Member& member : members_) member.parameter.mutable_grad().reset();
    if (!sum_.defined()) sum_ = at::zeros({bucket_.size_here()}, reals_of(members_[0].parameter.detach()).options());
  } else if (!is_begun_ || has_gradients()) {
    sum();
  }
  finish();
  for (Member& member : members_) member.times = std::exchange(member.added, 0);
  missing_ = members_.size();
  is_begun_ = false;
  return std::exchange(sum_, {});
}

}  // namespace adjoin::parallel
