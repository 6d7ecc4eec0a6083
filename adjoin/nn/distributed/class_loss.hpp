#pragma once

#include <torch/nn/module.h>
#include <torch/nn/options/loss.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/distributed/loss.hpp"
#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/nn/distributed/softmax.hpp"
#include "adjoin/nn/distributed/total.hpp"

namespace adjoin::nn {

using torch::nn::CrossEntropyLossOptions;
using torch::nn::NLLLossOptions;

/// A loss of the class that each sample should have: the options of NLLLoss and CrossEntropyLoss in one form.
struct ClassLossGeometry {
  std::string name;
  bool of_scores = false;  ///< x are scores instead of logarithms of probabilities
  LossReduction reduction = LossReduction::mean;
  at::Tensor weight = {};  ///< of classes, the same on every worker; may be undefined
  int64_t ignore_index = -100;
  double smoothing = 0;
};

ClassLossGeometry geometry_of(const NLLLossOptions& options);
/// Throws: InvalidArgument for a label smoothing outside [0, 1]
ClassLossGeometry geometry_of(const CrossEntropyLossOptions& options);

/// Minus the logarithm of the probability of each sample's class. The input may be cut in any way, also over classes, which are
/// not gathered.
///
/// Where classes are cut, each worker has the scores of its own classes. The workers agree on the largest score of a sample and
/// on the sum of the exponentials, and the worker that holds the sample's class adds its share. The mean is weighted, over all
/// samples that are not ignored.
/// Shape:  x [classes], or [batch, classes, *]; target: int64, x's shape without the classes -> []; with reduction none the
///         target's shape
/// Kinds:  any -> as `output` says. By default the reduced value is on every worker of the layer's grid; losses that are not
///         reduced have x's layout, replicated along the axes that cut its classes
/// Cost:   a move of the target, an all-reduce of two numbers, which checks the targets, and one of the value. Where classes
///         are cut, also an all-reduce of one number a sample for the maxima, and one each way for the sums
/// Source: Shoeybi et al., arXiv 1909.08053, section 3, for the classes that are cut
class ClassLossImpl : public torch::nn::Module {
 public:
  /// All workers of the world call it, also those that hold nothing.
  /// Throws: InvalidArgument on all workers where shapes or layouts do not fit, and for a target that is not a class
  DistributedTensor forward(const DistributedTensor& x, const DistributedTensor& target);

 protected:
  ClassLossImpl(ClassLossGeometry geometry, const Grid& grid, LayoutRule output);

 private:
  /// What is prepared for inputs of one layout.
  struct Prepared {
    int64_t class_dim, classes;
    Move read;                // x without partial axes
    Layout samples;           // where targets are used: copied along the axes that cut classes
    bool is_here;             // this worker is in x's grid
    at::Tensor place;         // for each class, its place among the classes on this worker; -1 for the others
    at::Tensor classes_here;  // global indices
    SoftmaxAlong over_classes;
    Total counts;  // of weights of samples and of wrong targets, on every worker
    std::optional<Move> each;
    std::optional<Total> total;
    PerLayout<Move> targets;
  };
  /// For the samples on this worker: their classes (0 where a sample has none), whether they are ignored, their classes'
  /// weights.
  struct Labels {
    at::Tensor classes, ignored, weights;
  };
  Prepared prepare(const Layout& input) const;
  /// The sum of all samples' weights. Throws: InvalidArgument on every worker for a target that is not a class
  double total_weight(const Prepared& prepared, const Labels& labels, const at::Tensor& target,
                      const Layout& layout) const;
  Labels labels_of(const Prepared& prepared, const at::Tensor& target) const;
  at::Tensor losses(const Prepared& prepared, const at::Tensor& log_probabilities, const Labels& labels) const;

  ClassLossGeometry geometry_;
  LayoutRule output_;
  PerLayout<Prepared> prepared_;
};

/// ClassLoss with the options of its twin in torch::nn. Targets that are probabilities of classes are refused.
template <class Options>
class ClassLossOf : public ClassLossImpl {
 public:
  /// Throws: InvalidArgument as geometry_of
  ClassLossOf(const Options& o, const Grid& grid, LayoutRule output = {})
      : ClassLossImpl(geometry_of(o), grid, std::move(output)), options(o) {}
  explicit ClassLossOf(const Grid& grid) : ClassLossOf(Options(), grid) {}

  const Options options;
};

using NLLLossImpl = ClassLossOf<NLLLossOptions>;
using CrossEntropyLossImpl = ClassLossOf<CrossEntropyLossOptions>;
TORCH_MODULE(NLLLoss);
TORCH_MODULE(CrossEntropyLoss);

}  // namespace adjoin::nn
