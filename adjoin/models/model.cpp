#include "adjoin/models/model.hpp"

#include <algorithm>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/recompute.hpp"

namespace adjoin::models {

ModelImpl::ModelImpl(std::vector<Segment> segments, const Grid& stage, const at::TensorOptions& tensor, bool shards)
    : segments_(std::move(segments)) {
  require(!segments_.empty(), "Model: expected at least 1 segment, got none");
  for (const Segment& segment : segments_) {
    require(segment.forward != nullptr, [&] { return "Model: the segment " + segment.name + " has no forward"; });
    Modules& of_segment = modules_.emplace_back(Modules{stage});
    for (const Part& part : segment.parts) {
      const auto children = named_children();
      const auto* made = children.find(part.name);
      of_segment.of_parts.push_back(made ? *made : register_module(part.name, part.make(stage, tensor)));
      if (shards && !shards_.contains(part.name))
        shards_.emplace(part.name, std::make_unique<parallel::WeightShards>(
                                       nn::parameters_of(*of_segment.of_parts.back(), stage, {"tp"})));
    }
  }
}

at::Tensor ModelImpl::forward(at::Tensor x, const ForwardPass& pass, std::span<nn::KeyValueCache> caches) const {
  for (size_t i = 0; i < segments_.size(); ++i) x = run(i, x, pass, caches.empty() ? nullptr : &caches[i]);
  return x;
}

at::Tensor ModelImpl::run(size_t segment, const at::Tensor& x, const ForwardPass& pass, nn::KeyValueCache* cache,
                          bool backward_follows) const {
  const Segment& recipe = segments_[segment];
  const auto forward = [&recipe, &modules = modules_[segment], pass, cache](const std::vector<at::Tensor>& in) {
    return recipe.forward(modules, in[0], pass, cache);
  };
  gather(segment);
  at::Tensor y = recipe.recomputes ? recomputed(forward, {x}) : forward({x});
  if (shards_.empty()) return y;
  if (!y.requires_grad() || !backward_follows) release(segment);
  if (y.requires_grad())
    y.register_hook([this, segment](const at::TensorBase&) {
      const auto& mine = segments_[segment].parts;
      for (const auto& [name, shards] : shards_)
        if (std::ranges::find(mine, name, &Part::name) == mine.end()) shards->release();
      gather(segment);
    });
  return y;
}

void ModelImpl::release_weights() const {
  for (const auto& [name, shards] : shards_) shards->release();
}

void ModelImpl::gather(size_t segment) const {
  if (shards_.empty()) return;
  for (const Part& part : segments_[segment].parts) shards_.at(part.name)->gather();
}

void ModelImpl::release(size_t segment) const {
  for (const Part& part : segments_[segment].parts) shards_.at(part.name)->release();
}

}  // namespace adjoin::models
