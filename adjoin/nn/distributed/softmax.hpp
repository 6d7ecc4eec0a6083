#pragma once

#include <torch/nn/module.h>
#include <torch/nn/options/activation.h>
#include <torch/nn/pimpl.h>

#include <string>
#include <type_traits>

#include "adjoin/nn/distributed/dim_mean.hpp"
#include "adjoin/nn/distributed/route.hpp"

namespace adjoin::nn {

using torch::nn::LogSoftmaxOptions;
using torch::nn::SoftmaxOptions;
using torch::nn::SoftminOptions;

/// Softmax along one dim, whichever workers hold its parts; LibTorch's kernel where each worker holds all of it. The plan is made
/// once, by the constructor.
/// Shape:  layout.shape_on(rank) -> the same; outside the grid any zero-volume tensor -> [0]
/// Kinds:  split, replicated, copied -> the same
/// Cost:   where the dim is cut, an all-reduce of a maximum for each row forward, and one of a sum each way; else nothing moves
class SoftmaxAlong {
 public:
  /// Throws: InvalidArgument for a layout that is partial or has a covering split
  SoftmaxAlong(const Layout& x, int64_t dim, const Grid& grid);

  at::Tensor softmax(const at::Tensor& x) const;
  at::Tensor log_softmax(const at::Tensor& x) const;

 private:
  at::Tensor shifted(const at::Tensor& x) const;

  int64_t dim_;
  bool is_here_;          // this worker is in the grid
  Communicator workers_;  // that hold the other parts of the dim
  bool is_cut_;
  DimMean over_dim_;
};

/// Softmax, Softmin and LogSoftmax. The input may be cut in any way, also along the layer's dim, and stays where it is.
/// Shape:  any that has the dim -> the same
/// Kinds:  any -> as `output` says; by default the input's layout, with sums taken
/// Cost:   as SoftmaxAlong
class SoftmaxBaseImpl : public torch::nn::Module {
 public:
  /// All workers of the world call it, also those that hold nothing.
  /// Throws: InvalidArgument on all workers where x does not have the options' dim
  DistributedTensor forward(const DistributedTensor& x);

 protected:
  enum class Function : uint8_t { softmax, softmin, log_softmax };
  SoftmaxBaseImpl(std::string name, Function function, int64_t dim, const Grid& grid, LayoutRule output)
      : function_(function), dim_(dim), output_(std::move(output)), prepared_(std::move(name), grid) {}

 private:
  struct Prepared {
    Move read;  // without partial axes
    SoftmaxAlong along;
    Move write;
  };
  Prepared prepare(const Layout& input) const;

  Function function_;
  int64_t dim_;
  LayoutRule output_;
  PerLayout<Prepared> prepared_;
};

/// The same with the options of its twin in torch::nn.
template <class Options>
class SoftmaxOf : public SoftmaxBaseImpl {
 public:
  SoftmaxOf(const Options& o, const Grid& grid, LayoutRule output = {})
      : SoftmaxBaseImpl(is_min   ? "Softmin"
                        : is_log ? "LogSoftmax"
                                 : "Softmax",
                        is_min   ? Function::softmin
                        : is_log ? Function::log_softmax
                                 : Function::softmax,
                        o.dim(), grid, std::move(output)),
        options(o) {}

  const Options options;

 private:
  static constexpr bool is_min = std::is_same_v<Options, SoftminOptions>;
  static constexpr bool is_log = std::is_same_v<Options, LogSoftmaxOptions>;
};

using SoftmaxImpl = SoftmaxOf<SoftmaxOptions>;
using SoftminImpl = SoftmaxOf<SoftminOptions>;
using LogSoftmaxImpl = SoftmaxOf<LogSoftmaxOptions>;
TORCH_MODULE(Softmax);
TORCH_MODULE(Softmin);
TORCH_MODULE(LogSoftmax);

}  // namespace adjoin::nn
