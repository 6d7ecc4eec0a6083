#pragma once

#include <torch/nn/module.h>
#include <torch/nn/options/loss.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/nn/distributed/total.hpp"

namespace adjoin::nn {

using torch::nn::BCELossOptions;
using torch::nn::BCEWithLogitsLossOptions;
using torch::nn::HuberLossOptions;
using torch::nn::KLDivLossOptions;
using torch::nn::L1LossOptions;
using torch::nn::MSELossOptions;
using torch::nn::PoissonNLLLossOptions;
using torch::nn::SmoothL1LossOptions;

/// How the losses of single elements are reduced: not at all, to their sum, to the sum divided by their number, or to the sum
/// divided by the size of the batch.
enum class LossReduction : uint8_t { none, sum, mean, batch_mean };

template <class Choice>
LossReduction reduction_of(const Choice& choice) {
  if (std::holds_alternative<torch::enumtype::kNone>(choice)) return LossReduction::none;
  if (std::holds_alternative<torch::enumtype::kSum>(choice)) return LossReduction::sum;
  return std::holds_alternative<torch::enumtype::kMean>(choice) ? LossReduction::mean : LossReduction::batch_mean;
}

/// A loss of each element of x against the same element of a target: the options of such losses in one form.
struct ElementLossGeometry {
  std::string name;
  LossReduction reduction = LossReduction::mean;
  /// The loss of each element, not reduced.
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& target, at::TensorList weights)> losses;
  std::vector<at::Tensor> weights = {};  ///< broadcast to x; the same on every worker; some may be undefined
};

ElementLossGeometry geometry_of(const L1LossOptions& options);
ElementLossGeometry geometry_of(const MSELossOptions& options);
ElementLossGeometry geometry_of(const SmoothL1LossOptions& options);
ElementLossGeometry geometry_of(const HuberLossOptions& options);
ElementLossGeometry geometry_of(const PoissonNLLLossOptions& options);
ElementLossGeometry geometry_of(const BCELossOptions& options);
ElementLossGeometry geometry_of(const BCEWithLogitsLossOptions& options);
ElementLossGeometry geometry_of(const KLDivLossOptions& options);

/// A loss of single elements. The input may be cut in any way, and the target in any other way.
///
/// The target is moved to where x is. Each worker computes the losses of its own elements; their sum over all workers is
/// divided by the number of elements of the whole tensor, so the mean is exact, however uneven the parts are. Copies count
/// once. Gradients go to x and, where it requires one, to the target. Every worker calls `value.local.sum().backward()`, also
/// those that hold nothing.
/// Shape:  x and target [*] -> []; with reduction none [*]
/// Kinds:  any -> as `output` says (on_one_worker: on that worker alone). By default the reduced value is on every worker of
///         the layer's grid; losses that are not reduced have x's layout
/// Cost:   a move of the target and one all-reduce of a number forward; the target's gradient backward
class ElementLossImpl : public torch::nn::Module {
 public:
  /// All workers of the world call it, also those that hold nothing.
  /// Throws: InvalidArgument on all workers where x and target differ in shape, or a weight or a layout does not fit
  DistributedTensor forward(const DistributedTensor& x, const DistributedTensor& target);

 protected:
  ElementLossImpl(ElementLossGeometry geometry, const Grid& grid, LayoutRule output);

 private:
  /// What is prepared for inputs of one layout.
  struct Prepared {
    Layout x;  // without partial axes
    Move read;
    bool is_here;                     // this worker is in x's grid
    bool links;                       // some worker holds nothing
    std::vector<at::Tensor> weights;  // the pieces that belong to the elements here
    std::optional<Move> each;         // moves losses that are not reduced to where they are wanted
    std::optional<Total> total;
    double divisor = 1;
    PerLayout<Move> targets;
  };
  Prepared prepare(const Layout& input) const;
  /// Throws: InvalidArgument, with this rank in its text, for values for which the loss is not defined
  at::Tensor losses_of(const at::Tensor& x, const at::Tensor& target, const Prepared& prepared) const;

  ElementLossGeometry geometry_;
  LayoutRule output_;
  PerLayout<Prepared> prepared_;
};

/// ElementLoss with the options of its twin in torch::nn.
template <class Options>
class ElementLossOf : public ElementLossImpl {
 public:
  ElementLossOf(const Options& o, const Grid& grid, LayoutRule output = {})
      : ElementLossImpl(geometry_of(o), grid, std::move(output)), options(o) {}
  explicit ElementLossOf(const Grid& grid) : ElementLossOf(Options(), grid) {}

  const Options options;
};

#define ADJOIN_ELEMENT_LOSS(name)                  \
  using name##Impl = ElementLossOf<name##Options>; \
  TORCH_MODULE(name)
ADJOIN_ELEMENT_LOSS(L1Loss);
ADJOIN_ELEMENT_LOSS(MSELoss);
ADJOIN_ELEMENT_LOSS(SmoothL1Loss);
ADJOIN_ELEMENT_LOSS(HuberLoss);
ADJOIN_ELEMENT_LOSS(PoissonNLLLoss);
ADJOIN_ELEMENT_LOSS(BCELoss);
ADJOIN_ELEMENT_LOSS(BCEWithLogitsLoss);
ADJOIN_ELEMENT_LOSS(KLDivLoss);
#undef ADJOIN_ELEMENT_LOSS

}  // namespace adjoin::nn
