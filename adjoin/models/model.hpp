#pragma once

#include <torch/nn/pimpl.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/parallel/weight_shards.hpp"

namespace adjoin::models {

/// Consecutive segments, made on this rank: a whole model, or a stage of one.
class ModelImpl : public torch::nn::Module {
 public:
  /// Makes each part once, also one that several segments name. Where parts are sharded each rank keeps only a shard of their
  /// weights that several ranks hold copies of; it has a segment's weights whole only while the segment runs, forward or back,
  /// and of a table the rows that it reads. All ranks of the stage must then call each function. With `seed`, what a plain module
  /// of torch::nn draws follows from the seed and the name of its part: such a part is made a second time, while no other thread
  /// of this process draws.
  /// Throws: InvalidArgument for no segments, for a segment without a forward, and what the parts throw
  ModelImpl(std::vector<Segment> segments, const Grid& stage, const at::TensorOptions& tensor = at::kFloat,
            Sharding sharding = Sharding::none, std::optional<uint64_t> seed = {});

  /// `caches`: empty, or one for each segment.
  at::Tensor forward(const at::Tensor& input, const ForwardPass& pass, std::span<nn::KeyValueCache> caches = {}) const;
  /// Runs one segment alone.
  at::Tensor run(size_t segment, const at::Tensor& x, const ForwardPass& pass, nn::KeyValueCache* cache = nullptr,
                 parallel::PlaceInStage place = {}) const;
  /// The same of any segment, of a model that gets `input`.
  parallel::Bundle run(size_t segment, const parallel::Bundle& x, const at::Tensor& input, const ForwardPass& pass,
                       parallel::PlaceInStage place = {}) const;
  /// To call after a backward: releases the memory of weights that were gathered for it.
  void release_weights() const;

  const std::vector<Segment>& segments() const { return segments_; }
  const Modules& modules(size_t segment) const { return modules_[segment]; }
  /// A part's parameters and buffers: the shards of one that is sharded.
  std::vector<nn::Parameter> pieces(const std::string& part) const;
  /// For each part that is sharded.
  const std::map<std::string, std::shared_ptr<parallel::WeightShards>>& shards() const { return shards_; }
  /// From now on gradients are in lanes (parallel::WeightShards).
  void sum_lanes(const HeldLanes& lanes) const;
  const Grid& stage() const { return modules_.front().stage; }

 private:
  void release_whole(size_t segment) const;

  std::vector<Segment> segments_;
  std::vector<Modules> modules_;  // for each segment
  std::map<std::string, std::shared_ptr<parallel::WeightShards>> shards_;
  parallel::ShardedSegments sharded_;
};
TORCH_MODULE(Model);

}  // namespace adjoin::models
