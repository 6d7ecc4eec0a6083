#include "adjoin/parallel/weight_parts.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/util/ScopeExit.h>

#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/partition/shard.hpp"

namespace adjoin::parallel {

WeightParts::WeightParts(std::vector<nn::Parameter> whole, const Members& buckets, Communicator group, std::string who)
    : whole_(std::move(whole)), parts_(whole_), group_(std::move(group)), who_(std::move(who)) {
  std::vector<nn::Parameter> reals;
  for (const nn::Parameter& parameter : whole_) reals.push_back(reals_of(parameter));
  for (const std::vector<size_t>& members : buckets) buckets_.emplace_back(reals, members);
  for (size_t i = 0; i < whole_.size(); ++i) {
    nn::Parameter& part = parts_[i];
    part.layout = sharded(part.layout);
    const std::vector<int64_t> shape = part.layout.shape_on(group_.rank());
    const at::Tensor flat = Bucket(reals, {i}).mine(reals_of(whole_[i].tensor.detach()).view({-1}));
    part.tensor = of_reals(flat, shape, part.tensor.is_complex()).requires_grad_();
    marks_.push_back(std::make_unique<Mark>(part.tensor, *this, i));
  }
}

void WeightParts::write(size_t part, const std::string&) {
  require(may_change_, [&] {
    return who_ + ": this rank's part of '" + parts_[part].name + "' would change on this rank alone: call " + who_ +
           "::step(optimizer) instead of the optimizer's own step";
  });
}

void WeightParts::update(const std::function<void()>& work) {
  may_change_ = true;
  const auto end = c10::make_scope_exit([&] { may_change_ = false; });
  work();
  if (group_.size() == 1) return;
  const at::NoGradGuard no_gradient;
  std::vector<at::Tensor> whole;
  for (const nn::Parameter& parameter : whole_) whole.push_back(reals_of(parameter.tensor.detach()));
  for (const Bucket& bucket : buckets_) {
    const at::Tensor packed = bucket.pack(whole);
    group_.all_gather(buffer(bucket.mine(packed)), buffer(packed), bucket.sizes());
    bucket.unpack(packed, whole);
    for (const size_t i : bucket.members()) whole[i].unsafeGetTensorImpl()->bump_version();
  }
}

void WeightParts::check_memory() const {
  for (size_t i = 0; i < parts_.size(); ++i)
    require(parts_[i].tensor.is_alias_of(whole_[i].tensor), [&] {
      return who_ + ": '" + parts_[i].name + "' has other memory than when " + who_ +
             " was made: convert a module to another type, or assign its weights, before that";
    });
}

}  // namespace adjoin::parallel
