#include "adjoin/models/model.hpp"

#include <algorithm>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/movement/recompute.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/nn/seeded.hpp"

namespace adjoin::models {

namespace {

using Made = std::shared_ptr<torch::nn::Module>;

Made made(const ModuleRecipe& part, const Grid& stage, const at::TensorOptions& tensor, std::optional<uint64_t> seed) {
  const auto make = [&] { return part.make(stage, tensor); };
  Made module = seed ? nn::seeded(mix(*seed ^ hash_of(part.name)), make) : make();
  require(module != nullptr, [&] { return "Model: the part " + part.name + " made no module"; });
  return module;
}

}  // namespace

ModelImpl::ModelImpl(std::vector<Segment> segments, const Grid& stage, const at::TensorOptions& tensor,
                     Sharding sharding, std::optional<uint64_t> seed)
    : segments_(std::move(segments)) {
  require(!segments_.empty(), "Model: expected at least 1 segment, got none");
  for (const Segment& segment : segments_) {
    require(segment.forward || segment.with_input,
            [&] { return "Model: the segment " + segment.name + " has no forward"; });
    Modules& of_segment = modules_.emplace_back(Modules{stage});
    std::vector<std::shared_ptr<parallel::WeightShards>> sharded;
    for (const ModuleRecipe& part : segment.parts) {
      const auto children = named_children();
      const auto* known = children.find(part.name);
      of_segment.of_parts.push_back(known ? *known : register_module(part.name, made(part, stage, tensor, seed)));
      const std::optional<parallel::Kept> kept = kept_as(part, sharding);
      if (!kept) continue;
      std::shared_ptr<parallel::WeightShards>& of_part = shards_[part.name];
      if (!of_part)
        of_part = std::make_shared<parallel::WeightShards>(
            nn::parameters_of(*of_segment.of_parts.back(), stage, {"tp"}), *kept);
      sharded.push_back(of_part);
    }
    sharded_.add(std::move(sharded));
  }
}

void ModelImpl::release_weights() const {
  sharded_.release();
  for (size_t segment = 0; segment < segments_.size(); ++segment) release_whole(segment);
}

void ModelImpl::release_whole(size_t segment) const {
  if (const auto& release = segments_[segment].release_whole) release(modules_[segment]);
}

std::vector<nn::Parameter> ModelImpl::pieces(const std::string& part) const {
  const auto sharded = shards_.find(part);
  return sharded == shards_.end() ? nn::parameters_of(*named_children()[part], stage(), {"tp"})
                                  : sharded->second->parameters();
}

void ModelImpl::sum_lanes(const HeldLanes& lanes) const {
  const std::set<std::string> shared = shared_parts(segments_);
  for (const auto& [part, shards] : shards_) shards->sum_lanes(lanes, /*runs_once=*/!shared.contains(part));
}

at::Tensor ModelImpl::forward(const at::Tensor& input, const ForwardPass& pass,
                              std::span<nn::KeyValueCache> caches) const {
  parallel::Bundle x = input;
  for (size_t i = 0; i < segments_.size(); ++i)
    if (caches.empty())
      x = run(i, x, input, pass);
    else
      x = run(i, static_cast<const at::Tensor&>(x), pass, &caches[i]);
  return x;
}

parallel::Bundle ModelImpl::run(size_t segment, const parallel::Bundle& x, const at::Tensor& input,
                                const ForwardPass& pass, parallel::PlaceInStage place) const {
  const auto& with_input = segments_[segment].with_input;
  if (with_input) {
    parallel::Bundle y = with_input(modules_[segment], x, input, pass);
    if (!place.backward_follows) release_whole(segment);
    return y;
  }
  return run(segment, static_cast<const at::Tensor&>(x), pass, nullptr, place);
}

at::Tensor ModelImpl::run(size_t segment, const at::Tensor& x, const ForwardPass& pass, nn::KeyValueCache* cache,
                          parallel::PlaceInStage place) const {
  const Segment& recipe = segments_[segment];
  const auto forward = [&recipe, &modules = modules_[segment], pass, cache](const std::vector<at::Tensor>& in) {
    return recipe.forward(modules, in[0], pass, cache);
  };
  const auto apply = [&](const at::Tensor& in) {
    return recipe.recomputes ? recomputed(forward, {in}) : forward({in});
  };
  return sharded_.run(segment, x, apply, place);
}

}  // namespace adjoin::models
