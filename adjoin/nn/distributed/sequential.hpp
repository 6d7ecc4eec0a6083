#pragma once

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/options/linear.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <memory>
#include <optional>

#include "adjoin/nn/distributed/route.hpp"

namespace adjoin::nn {

/// Layers that take and return a DistributedTensor, one after another. It is torch::nn's container: it holds any such layers,
/// with their names, and may be a layer of another one.
///
///     nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(1, 6, 5), grid), nn::Elementwise(at::relu), …);
class SequentialImpl : public torch::nn::SequentialImpl {
 public:
  using torch::nn::SequentialImpl::SequentialImpl;

  /// All workers of the world call it. Throws: InvalidArgument as the layers do
  DistributedTensor forward(const DistributedTensor& x);
};
TORCH_MODULE(Sequential);

/// A torch::nn::Sequential that may be a layer of another one, as torch::nn::Sequential itself may not:
///
///     torch::nn::Sequential model(torch::nn::Linear(4, 4), nn::InnerSequential(torch::nn::Tanh(), torch::nn::Linear(4, 2)));
///
/// nn::distributed accepts no other class derived from torch::nn::Sequential, as its forward might compute something else.
class InnerSequentialImpl final : public torch::nn::SequentialImpl {
 public:
  using torch::nn::SequentialImpl::SequentialImpl;

  at::Tensor forward(const at::Tensor& x) { return torch::nn::SequentialImpl::forward(x); }
  std::shared_ptr<torch::nn::Module> clone(const std::optional<at::Device>& device = {}) const override;
};
TORCH_MODULE(InnerSequential);

/// An elementwise function as a layer.
/// Shape:  any -> the same
/// Kinds:  split, replicated, copied -> the same
/// Cost:   nothing moves
class ElementwiseImpl : public torch::nn::Module {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;
  /// Throws: InvalidArgument for an empty function
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

/// Makes one dim of several: by default of channels and space, which gives features; the options can name other dims.
///
/// Neighbours in the new dim are neighbours in the last of the old dims, so all old dims except the first must be whole on a
/// worker. The axes that cut any of them therefore cut the first one: axes of space move to channels.
/// Shape:  [*, a, …, b, *] -> [*, a … b, *]
/// Kinds:  any -> the new dim is cut over all axes that cut an old one, in parts that hold whole indices of the first
/// Cost:   a move each way where an old dim other than the first is cut; else nothing moves
class FlattenImpl : public torch::nn::Module {
 public:
  FlattenImpl(const FlattenOptions& options, const Grid& grid);

  /// All workers of the world call it. Throws: InvalidArgument on all workers where x does not have the options' dims
  DistributedTensor forward(const DistributedTensor& x);

  const FlattenOptions options;

 private:
  struct Prepared {
    Move read;    // to the layout in which only the first of the dims is cut
    Layout made;  // the same pieces with one dim
  };
  Prepared prepare(const Layout& input) const;

  PerLayout<Prepared> prepared_;
};
TORCH_MODULE(Flatten);

}  // namespace adjoin::nn
