#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <utility>
#include <vector>

#include "adjoin/parallel/weights.hpp"

namespace adjoin::parallel {

/// The weights of a torch::nn::Sequential of which each rank keeps its shards (Weights in stage 3), with its forward.
class ShardedSequential : public Weights {
 public:
  ShardedSequential(torch::nn::Sequential module, const Communicator& group)
      : Weights(*module, group, {.zero = 3}, "ShardedSequential"), module_(std::move(module)) {}

  at::Tensor forward(const at::Tensor& x) { return module_->forward(x); }
  std::vector<at::Tensor> shards() const { return parts(); }

 private:
  torch::nn::Sequential module_;
};

}  // namespace adjoin::parallel
