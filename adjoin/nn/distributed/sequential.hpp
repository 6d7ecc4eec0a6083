#pragma once

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/options/linear.h>
#include <torch/nn/pimpl.h>

#include <functional>

#include "adjoin/nn/distributed/route.hpp"

namespace adjoin::nn {

/// Layers that take and give a DistributedTensor, one after another: torch::nn's container, which holds any that do, with
/// their names, and may itself be one of them.
///
///     nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(1, 6, 5), grid), nn::Elementwise(at::relu), …);
class SequentialImpl : public torch::nn::SequentialImpl {
 public:
  using torch::nn::SequentialImpl::SequentialImpl;

  /// Called by all workers of the world. Throws: InvalidArgument as the layers do
  DistributedTensor forward(const DistributedTensor& x);
};
TORCH_MODULE(Sequential);

/// An elementwise function as a layer.
/// Shape:  any -> the same
/// Kinds:  split, replicated, copied -> the same
/// Cost:   nothing moves
class ElementwiseImpl : public torch::nn::Module {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;
  /// Throws: InvalidArgument for no function
  explicit ElementwiseImpl(Function function) : function_(std::move(function)) {
    require(function_ != nullptr, "Elementwise: expected a function");
  }

  /// Throws: InvalidArgument where the function changes the shape, or x is partial along an axis
  DistributedTensor forward(const DistributedTensor& x) { return map(x, function_); }

 private:
  Function function_;
};
TORCH_MODULE(Elementwise);

using torch::nn::FlattenOptions;

/// Makes one dim of several: of channels and space features, unless the options say other dims.
///
/// What lies side by side in that dim lies side by side in the last of the several, so these must be whole on a worker:
/// the axes that cut any of them cut the first one then. Space moves to channels.
/// Shape:  [*, a, …, b, *] -> [*, a … b, *]
/// Kinds:  any -> the dim cut over all axes that cut one of those, in parts that hold all of an index of the first
/// Cost:   a move each way where another of them than the first is cut; else nothing moves
class FlattenImpl : public torch::nn::Module {
 public:
  FlattenImpl(const FlattenOptions& options, const Grid& grid);

  /// Called by all workers of the world. Throws: InvalidArgument on all of them where x has not the options' dims
  DistributedTensor forward(const DistributedTensor& x);

  const FlattenOptions options;

 private:
  struct Prepared {
    Move read;    // to where the first of the dims alone is cut
    Layout made;  // the same pieces with one dim
  };
  Prepared prepare(const Layout& input) const;

  PerLayout<Prepared> prepared_;
};
TORCH_MODULE(Flatten);

}  // namespace adjoin::nn
