#pragma once

#include <torch/nn/pimpl.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/parallel/weight_shards.hpp"

namespace adjoin::models {

/// Segments that follow one another, made on this rank: a whole model, or a stage of one.
class ModelImpl : public torch::nn::Module {
 public:
  /// Makes each part once, also one that several segments name. `shards`: of weights that ranks hold copies of, each keeps a shard
  /// alone, and has those of a segment whole while it runs, forward and back. Then all ranks of the stage call each function.
  /// Throws: InvalidArgument for no segments, a segment without a forward, and what the parts throw
  ModelImpl(std::vector<Segment> segments, const Grid& stage, const at::TensorOptions& tensor = at::kFloat,
            bool shards = false);

  /// `caches`, where they are given, are one for each segment.
  at::Tensor forward(at::Tensor x, const ForwardPass& pass, std::span<nn::KeyValueCache> caches = {}) const;
  /// One segment alone. `backward_follows`: at once, so that weights that are gathered stay for it.
  at::Tensor run(size_t segment, const at::Tensor& x, const ForwardPass& pass, nn::KeyValueCache* cache = nullptr,
                 bool backward_follows = false) const;
  /// After a backward: gives back the memory of weights that were gathered for it.
  void release_weights() const { sharded_.release(); }

  const std::vector<Segment>& segments() const { return segments_; }
  const Modules& modules(size_t segment) const { return modules_[segment]; }
  /// Of each part, where this has shards.
  const std::map<std::string, std::shared_ptr<parallel::WeightShards>>& shards() const { return shards_; }
  const Grid& stage() const { return modules_.front().stage; }

 private:
  std::vector<Segment> segments_;
  std::vector<Modules> modules_;  // of each segment
  std::map<std::string, std::shared_ptr<parallel::WeightShards>> shards_;
  parallel::ShardedSegments sharded_;
};
TORCH_MODULE(Model);

}  // namespace adjoin::models
