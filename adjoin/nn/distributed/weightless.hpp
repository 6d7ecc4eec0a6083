#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/nn/distributed/route.hpp"

namespace adjoin::nn {

/// Where a layer without a weight makes its output, and where the output must be then.
struct OutputPlace {
  Layout made, output;
};

/// A layer without a weight: a route for each layout of its input.
class WeightlessImpl : public torch::nn::Module {
 public:
  using Plan = std::function<Route(const Layout& input)>;
  WeightlessImpl(std::string name, const Grid& grid, Plan plan)
      : plan_(std::move(plan)), routes_(std::move(name), grid) {}

  /// All workers of the world call it, also those that hold nothing.
  /// Throws: InvalidArgument on all workers where x, the layer's sizes or a layout do not fit
  DistributedTensor forward(const DistributedTensor& x) {
    routes_.check_type(x);
    return routes_.of(x.layout, plan_)(x, {});
  }

 private:
  Plan plan_;
  Routes routes_;
};

/// A layer without a weight can work anywhere. It works where its output is wanted, if each part there is one piece of space;
/// else where its input is, with the dims whose sizes change in balanced parts. `shape` is the output's; its dims from `space`
/// on are not computed index by index.
OutputPlace output_place(const Layout& input, const std::vector<int64_t>& shape, size_t space, const LayoutRule& rule);

/// The number of dims before space: batch and channels, or channels alone.
/// Throws: InvalidArgument for another number of dims
size_t dims_before_space(const Layout& input, size_t space_dims);

/// What is read of inputs of a given shape to make the outputs `made`, where they do not read regular windows: `needed` gives
/// the inputs for a range of outputs of a dim of space.
HaloPlan plan_needed(const std::vector<int64_t>& inputs, const Layout& made, size_t space,
                     const std::function<Range(size_t dim, Range outputs)>& needed);

/// The ranges of the outputs that this worker makes, for each dim of space; empty outside the layout's grid.
std::vector<Range> space_made_here(const Layout& made, size_t space, const Grid& grid);

}  // namespace adjoin::nn
