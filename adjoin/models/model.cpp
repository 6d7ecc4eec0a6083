#include "adjoin/models/model.hpp"

#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/recompute.hpp"

namespace adjoin::models {

ModelImpl::ModelImpl(std::vector<Segment> segments, const Grid& stage, const at::TensorOptions& tensor)
    : segments_(std::move(segments)) {
  require(!segments_.empty(), "Model: expected at least 1 segment, got none");
  for (const Segment& segment : segments_) {
    require(segment.forward != nullptr, [&] { return "Model: the segment " + segment.name + " has no forward"; });
    Modules& of_segment = modules_.emplace_back(Modules{stage});
    for (const Part& part : segment.parts) {
      const auto children = named_children();
      const auto* made = children.find(part.name);
      of_segment.of_parts.push_back(made ? *made : register_module(part.name, part.make(stage, tensor)));
    }
  }
}

at::Tensor ModelImpl::forward(at::Tensor x, const ForwardPass& pass, std::span<nn::KeyValueCache> caches) const {
  for (size_t i = 0; i < segments_.size(); ++i) x = run(i, x, pass, caches.empty() ? nullptr : &caches[i]);
  return x;
}

at::Tensor ModelImpl::run(size_t segment, const at::Tensor& x, const ForwardPass& pass,
                          nn::KeyValueCache* cache) const {
  const Segment& recipe = segments_[segment];
  const auto forward = [&recipe, &modules = modules_[segment], pass, cache](const std::vector<at::Tensor>& in) {
    return recipe.forward(modules, in[0], pass, cache);
  };
  return recipe.recomputes ? recomputed(forward, {x}) : forward({x});
}

}  // namespace adjoin::models
