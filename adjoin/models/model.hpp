#pragma once

#include <torch/nn/pimpl.h>

#include <span>
#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"

namespace adjoin::models {

/// Segments that follow one another, made on this rank: a whole model, or a stage of one.
class ModelImpl : public torch::nn::Module {
 public:
  /// Makes each part once, also one that several segments name.
  /// Throws: InvalidArgument for no segments, a segment without a forward, and what the parts throw
  ModelImpl(std::vector<Segment> segments, const Grid& stage, const at::TensorOptions& tensor = at::kFloat);

  /// `caches`, where they are given, are one for each segment.
  at::Tensor forward(at::Tensor x, const ForwardPass& pass, std::span<nn::KeyValueCache> caches = {}) const;
  /// One segment alone.
  at::Tensor run(size_t segment, const at::Tensor& x, const ForwardPass& pass,
                 nn::KeyValueCache* cache = nullptr) const;

  const std::vector<Segment>& segments() const { return segments_; }
  const Modules& modules(size_t segment) const { return modules_[segment]; }
  const Grid& stage() const { return modules_.front().stage; }

 private:
  std::vector<Segment> segments_;
  std::vector<Modules> modules_;  // of each segment
};
TORCH_MODULE(Model);

}  // namespace adjoin::models
