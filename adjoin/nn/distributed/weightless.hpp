#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/nn/distributed/route.hpp"

namespace adjoin::nn {

/// Where a layer without a weight makes its output, and where that shall lie.
struct OutputPlace {
  Layout made, output;
};

/// A layer without a weight: a route for each layout of its input.
class WeightlessImpl : public torch::nn::Module {
 public:
  /// Called by all workers of the world, those that hold nothing too.
  /// Throws: InvalidArgument on all of them where x, the layer's sizes or a layout do not fit
  DistributedTensor forward(const DistributedTensor& x) {
    routes_.check_type(x);
    return routes_.of(x.layout, plan_)(x, {});
  }

 protected:
  using Plan = std::function<Route(const Layout& input)>;
  WeightlessImpl(std::string name, const Grid& grid, Plan plan)
      : plan_(std::move(plan)), routes_(std::move(name), grid) {}

 private:
  Plan plan_;
  Routes routes_;
};

/// A layer without a weight can work anywhere: where its output is wanted, if each part is one piece of space there; else
/// where its input lies, with the dims whose sizes change in balanced parts. `shape` is the output's, whose dims from
/// `space` on are not computed index by index.
OutputPlace output_place(const Layout& input, const std::vector<int64_t>& shape, size_t space, const LayoutRule& rule);

/// The dims before space, that is batch and channels, of which there may be one or two.
/// Throws: InvalidArgument for another number of dims
size_t dims_before_space(const Layout& input, size_t space_dims);

/// What is read of inputs of a shape where the outputs `made` read no regular windows: `needed` gives the inputs of a range
/// of outputs of a dim of space.
HaloPlan plan_needed(const std::vector<int64_t>& inputs, const Layout& made, size_t space,
                     const std::function<Range(size_t dim, Range outputs)>& needed);

/// The ranges of the outputs that this worker makes, of each dim of space; none outside the layout's grid.
std::vector<Range> space_made_here(const Layout& made, size_t space, const Grid& grid);

}  // namespace adjoin::nn
