#include "adjoin/insitu/samples.hpp"

#include <ATen/ATen.h>

#include <numeric>

#include "adjoin/base/philox.hpp"

namespace adjoin::insitu {

void Samples::add(const at::Tensor& inputs, const at::Tensor& target) {
  if (ring_.size() < capacity_) ring_.emplace_back();
  ring_[next_] = {inputs, target};
  next_ = (next_ + 1) % capacity_;
}

at::Tensor Samples::draw(size_t batch, at::Tensor inputs) {
  std::vector<size_t> order(ring_.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<at::Tensor> drawn, targets;
  const PhiloxKey key = philox_key(seed_, "insitu::Samples");
  for (size_t i = 0; i < batch; ++i) {
    const uint32_t word = philox({static_cast<uint32_t>(i), draws_, 0, 0}, key)[0];
    std::swap(order[i], order[i + word % (order.size() - i)]);
    drawn.push_back(ring_[order[i]].first);
    targets.push_back(ring_[order[i]].second);
  }
  ++draws_;
  at::cat_out(inputs, drawn);
  return at::cat(targets);
}

}  // namespace adjoin::insitu
