#include "adjoin/parallel/bucket_sum.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <span>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/sum_of_nodes.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::parallel {
namespace {

// Each keeps a whole gradient. Where messages are slower than backward, they take its time whatever this number is.
constexpr int64_t kMostRunning = 4;

/// Those with each_time whose sums run on this rank, in the order in which they were begun.
thread_local std::vector<BucketSum*> of_thread;

}  // namespace

BucketSum::BucketSum(const std::vector<nn::Parameter>& whole, Bucket bucket, When when, std::optional<HeldLanes> lanes)
    : bucket_(std::move(bucket)),
      when_(when),
      missing_(bucket_.members().size()),
      lanes_(std::move(lanes)),
      ranks_(nn::ranks_of_copies(whole[bucket_.members()[0]])) {
  for (const size_t i : bucket_.members()) members_.push_back({whole[i].name, whole[i].tensor});
  if (lanes_ && when_ == When::each_time) lanes_->gradients->at_last(members_[0].parameter, [this] { sum(); });
  if (lanes_ || when_ == When::asked) return;
  for (size_t i = 0; i < members_.size(); ++i) {
    require(!GradientHook::is_on(members_[i].parameter),
            [&] { return "another optimizer already sums the gradient of '" + members_[i].name + "'"; });
    hooks_.emplace_back(members_[i].parameter, [this, i] { added(i); });
  }
}

BucketSum::~BucketSum() {
  if (lanes_ && when_ == When::each_time) lanes_->gradients->at_last(members_[0].parameter, nullptr);
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

void BucketSum::learn_uses() {
  int all = 0;
  bool is_of_experts = false;
  for (const Member& member : members_) {
    int& uses = uses_.emplace_back(0);
    for (const WeightUse use : {WeightUse::product, WeightUse::look_up})
      if (lanes_->gradients->has(member.parameter, use)) uses |= 1 << static_cast<int>(use);
    all |= uses;
    is_of_experts |= lanes_->gradients->has_sources(member.parameter);
  }
  if (all == 0) return;
  const auto stage_of = [&](int rank) { return lanes_->ranks[static_cast<size_t>(rank)].stage; };
  const int mine = stage_of(ranks_[static_cast<size_t>(bucket_.copies().rank())]);
  const auto is_elsewhere = [&](int rank) { return stage_of(rank) != mine; };
  if (std::ranges::count(uses_, 3) == 0 && std::ranges::none_of(ranks_, is_elsewhere)) all = 1;  // whatever the use
  for (const std::vector<Range>& lanes : lanes_->of_copies(ranks_, is_of_experts)) {
    const int uses = is_elsewhere(ranks_[held_.size()]) ? 3 - all : all;
    std::vector<Range>& held = held_.emplace_back();
    for (const int64_t half : {0, 1})
      for (const Range& range : lanes)
        if ((uses & 1 << half) != 0)
          held.push_back({range.begin + half * lanes_->tree.parts, range.end + half * lanes_->tree.parts});
  }
}

at::Tensor BucketSum::pack_lanes(Range node) const {
  const int64_t half = node.begin / lanes_->tree.parts, before = half * lanes_->tree.parts;
  std::vector<at::Tensor> gradients(std::ranges::max(bucket_.members()) + 1);
  for (size_t i = 0; i < members_.size(); ++i) {
    const WeightUse use = half == 1 || uses_[i] == 2 ? WeightUse::look_up : WeightUse::product;
    const at::Tensor sum =
        lanes_->gradients->take(members_[i].parameter, use, {node.begin - before, node.end - before});
    gradients[bucket_.members()[i]] = sum.defined() ? sum : at::zeros_like(members_[i].parameter.detach());
  }
  return bucket_.pack(gradients);
}

/// Undefined where no layer adds to lanes of a member: where its gradient is, if it is a shard, is `.grad`.
at::Tensor BucketSum::sum_lanes() {
  if (uses_.empty()) learn_uses();
  if (held_.empty()) return {};
  const SumTree tree{2 * lanes_->tree.parts};
  std::vector<at::Tensor> nodes;
  for (const Range& node : tree.nodes_of(held_[static_cast<size_t>(bucket_.copies().rank())]))
    nodes.push_back(pack_lanes(node));
  const at::TensorOptions options = members_[0].parameter.options().requires_grad(false);
  if (!bucket_.is_cut()) return all_reduce_nodes(nodes, tree, held_, bucket_.copies(), {bucket_.size_here()}, options);
  return reduce_scatter_nodes(nodes, tree, held_, bucket_.sizes(), bucket_.copies(), options);
}

void BucketSum::sum() {
  const at::NoGradGuard no_gradient;
  finish();
  is_begun_ = true;
  if (lanes_) {
    sum_ = sum_lanes();
    if (sum_.defined() && bucket_.copies().size() == 1 && has_gradients()) sum_.add_(pack_gradients());
    if (sum_.defined()) return;
  }
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
    if (lanes_ && !is_begun_) sum();
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
