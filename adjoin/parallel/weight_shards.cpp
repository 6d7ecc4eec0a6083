#include "adjoin/parallel/weight_shards.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/copies.hpp"
#include "adjoin/partition/shard.hpp"

namespace adjoin::parallel {
namespace {

bool is_cut(const nn::Parameter& parameter) {
  return !parameter.is_buffer && nn::ranks_of_copies(parameter).size() > 1;
}

/// The memory of a whole tensor, whose storage is its own.
void set_bytes(const at::Tensor& whole, size_t bytes) {
  if (!whole.is_meta()) at::native::resize_bytes_cpu(whole.storage().unsafeGetStorageImpl(), bytes);
}

}  // namespace

nn::Parameter shard_of(nn::Parameter whole) {
  if (!is_cut(whole)) return whole;
  whole.layout = sharded(whole.layout);
  whole.tensor = at::empty(whole.layout.shape_on(whole.grid.world().rank()), whole.tensor.options())
                     .requires_grad_(whole.tensor.requires_grad());
  return whole;
}

WeightShards::WeightShards(std::vector<nn::Parameter> whole) : parameters_(std::move(whole)) {
  const at::NoGradGuard no_gradient;
  for (nn::Parameter& parameter : parameters_) {
    at::Tensor tensor = parameter.tensor;
    const bool owns_storage = tensor.is_contiguous() && tensor.storage().nbytes() == tensor.nbytes();
    if (is_cut(parameter) && !owns_storage) tensor.set_data(tensor.clone(at::MemoryFormat::Contiguous));
    if (!parameter.initial && !tensor.is_meta()) broadcast_piece(parameter);
    if (!is_cut(parameter)) continue;
    Weight& weight = weights_.emplace_back(Weight{tensor, {}, Bucket({parameter}, {0})});
    if (is_trained(parameter)) weight.gradient = std::make_unique<GradientShard>(parameter);
    parameter = shard_of(std::move(parameter));
    weight.shard = parameter.tensor;
    weight.shard.view({-1}).copy_(weight.bucket.mine(tensor.view({-1})));
    set_bytes(tensor, 0);
  }
}

void WeightShards::gather() {
  if (std::exchange(is_gathered_, true)) return;
  const at::NoGradGuard no_gradient;
  for (const Weight& weight : weights_) {
    set_bytes(weight.whole, weight.whole.nbytes());
    weight.bucket.copies().all_gather(buffer(weight.shard), buffer(weight.whole), weight.bucket.sizes());
  }
}

void WeightShards::release() {
  if (!std::exchange(is_gathered_, false)) return;
  for (const Weight& weight : weights_) set_bytes(weight.whole, 0);
}

void WeightShards::take_gradients() {
  for (const Weight& weight : weights_)
    if (weight.gradient && weight.gradient->has())
      weight.shard.mutable_grad() = weight.gradient->take().view(weight.shard.sizes());
}

void WeightShards::leave_gradients() {
  for (Weight& weight : weights_) weight.gradient.reset();
}

int64_t WeightShards::gradient_bytes() const {
  int64_t bytes = 0;
  for (const Weight& weight : weights_)
    if (weight.gradient) bytes += weight.gradient->bytes();
  return bytes;
}

}  // namespace adjoin::parallel
