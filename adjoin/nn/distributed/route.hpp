#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/distributed_tensor.hpp"
#include "adjoin/movement/halo.hpp"
#include "adjoin/movement/move.hpp"

namespace adjoin::nn {

/// Where a tensor of any shape shall lie.
using LayoutRule = std::function<Layout(const std::vector<int64_t>& shape)>;

/// Dim d in balanced parts over the axes[d] of a grid, whole where there are none; replicated along all other axes.
/// Throws: the rule InvalidArgument for a shape of fewer dims, or axes that are not the grid's
LayoutRule balanced_over(GridShape grid, std::vector<std::vector<std::string>> axes);

/// All of a tensor on one rank of the world.
LayoutRule on_one_worker(int rank);

/// Where a layer's weight lies, and where its output shall.
struct Placement {
  /// Unless given, on every worker of the layer's grid: copied, as each uses it for its own part of the batch or of space;
  /// those of norms, whose input stays where it is, replicated.
  std::optional<Layout> weight = {};
  LayoutRule output = {};  ///< unless given, where the kernels make it, sums taken; of norms where the input lies
  at::TensorOptions tensor = at::kFloat;
};

/// The weight's layout, `otherwise` unless one is given.
/// Throws: InvalidArgument that names the layer and `expected`, "a weight of shape ", for one of another shape
Layout weight_layout(const std::string& layer, const std::string& expected, const Placement& placement,
                     const Layout& otherwise);

/// What every layer here does with a tensor of one layout, prepared:
///
///   the input  --move-->  what each worker's kernel reads  --kernel-->  what it makes  --move-->  the output
///
/// Both moves bring gradients the other way. Between them a worker is alone with LibTorch's kernel: what it reads is all
/// that it needs for what it makes, halos and padding included, and what it makes may be a summand of the output. So a
/// layer says three layouts and a kernel, and nothing of messages.
class Route {
 public:
  /// From what a worker reads, and the parameters, to what it makes, of shape made.shape_on(rank). It is called where
  /// that has elements; what is read may have none nevertheless.
  using Kernel = std::function<at::Tensor(const at::Tensor& read, at::TensorList parameters)>;
  struct Plan {
    HaloPlan read;        ///< of the windows of each dim; pointwise ones where nothing is windowed
    Layout made, output;  ///< made: exact, or covering and partial where kernels make summands
    Kernel kernel;
    double fill = 0;  ///< what the input is padded with
  };

  /// Made by all workers of the world in the same order. Throws: InvalidArgument where the moves are none
  Route(const Layout& input, Plan plan, const Grid& grid);

  /// A worker that reads or makes nothing stays in the graph, with zeros, so that all come to the moves' backward.
  /// Cost: both moves and the kernel
  DistributedTensor operator()(const DistributedTensor& x, at::TensorList parameters) const;

 private:
  bool links_;  // as some worker reads or makes nothing
  HaloExchange read_;
  Move write_;
  Kernel kernel_;
  std::vector<int64_t> made_;  // the shape of what this worker makes
};

/// Throws InvalidArgument, on the worker whose piece it is, that names the layer where x is not of floating-point numbers,
/// or not of the type of `like`, if that is given and autocast is off; numbers of 16 bits go with float32 where `mixes`.
void check_type(const std::string& layer, const DistributedTensor& x, const at::Tensor& like = {}, bool mixes = false);

/// What a layer has prepared for each layout of an input, so that a step plans nothing. Where there are two inputs, what is
/// prepared for the first holds what is for the second.
template <class Prepared>
class PerLayout {
 public:
  /// `layer` and `input` are what errors call them.
  PerLayout(std::string layer, Grid grid, std::string input = "input")
      : layer_(std::move(layer)), input_(std::move(input)), grid_(std::move(grid)) {}

  /// What `prepare` made of a layout the first time, alike on all workers and without talking. The last ones are kept.
  /// Throws: InvalidArgument that names the layer, what does not fit, and the layout
  template <class Prepare>
  Prepared& of(const Layout& input, const Prepare& prepare) {
    for (auto& [layout, prepared] : known_)
      if (layout == input) return prepared;
    try {
      known_.emplace_front(input, prepare(input));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(layer_ + ": " + error.what() + "; the " + input_ + " is " + input.to_string());
    }
    if (known_.size() > kKept) known_.pop_back();
    return known_.front().second;
  }
  /// Throws: InvalidArgument as nn::check_type, of this layer
  void check_type(const DistributedTensor& x, const at::Tensor& like = {}, bool mixes = false) const {
    nn::check_type(layer_, x, like, mixes);
  }
  const Grid& grid() const { return grid_; }

 private:
  static constexpr size_t kKept = 8;  // training, its last batch, evaluation, …
  std::string layer_, input_;
  Grid grid_;
  std::list<std::pair<Layout, Prepared>> known_;  // the newest first
};
using Routes = PerLayout<Route>;

/// What kernels make, made whole: sums taken, and what overlaps added. The output of a layer that is not told another.
Layout summed(const Layout& made);

}  // namespace adjoin::nn
