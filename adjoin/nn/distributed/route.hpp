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

/// Gives the layout for a tensor of any shape.
using LayoutRule = std::function<Layout(const std::vector<int64_t>& shape)>;

/// Dim d is cut in balanced parts over axes[d] of a grid, whole where axes[d] is empty; all other axes replicate.
/// Throws: InvalidArgument, from the rule, for a shape with fewer dims, or for axes that are not in the grid
LayoutRule balanced_over(GridShape grid, std::vector<std::vector<std::string>> axes);

/// The whole tensor on one rank of the world.
LayoutRule on_one_worker(int rank);

/// The layouts of a layer's weight and output.
struct LayerLayouts {
  /// By default on every worker of the layer's grid: copied, as each worker uses it for its own part of the batch or of space;
  /// but replicated for norms, whose input stays where it is.
  std::optional<Layout> weight = {};
  LayoutRule output = {};  ///< default: where the kernels make it, with sums taken; for norms the input's layout
  at::TensorOptions tensor = at::kFloat;
};

/// The weight's layout; `otherwise` if the placement gives none.
/// Throws: InvalidArgument that names the layer and `expected`, "a weight of shape ", for one of another shape
Layout weight_layout(const std::string& layer, const std::string& expected, const LayerLayouts& placement,
                     const Layout& otherwise);

/// What every layer in this folder does with a tensor of one layout, prepared:
///
///   the input  --move-->  what each worker's kernel reads  --kernel-->  what it makes  --move-->  the output
///
/// Both moves bring gradients back the other way. Between them a worker only runs LibTorch's kernel: it reads all that it needs
/// for its result, halos and padding included, and its result may be a summand of the output. So a layer gives three layouts
/// and a kernel, and has no code for messages.
class Route {
 public:
  /// Makes this worker's result, of shape made.shape_on(rank), from what it reads and the parameters. It is called only where
  /// the result has elements; what is read may be empty even then.
  using Kernel = std::function<at::Tensor(const at::Tensor& read, at::TensorList parameters)>;
  struct Plan {
    HaloPlan read;        ///< the windows of each dim; pointwise ones where there is no window
    Layout made, output;  ///< made: exact, or covering and partial where kernels make summands
    Kernel kernel;
    double fill = 0;              ///< the input is padded with this value
    bool kernels_differ = false;  ///< derivatives may depend on a tensor on some workers only
  };

  /// All workers of the world construct it, in the same order. Throws: InvalidArgument where the moves are not possible
  Route(const Layout& input, Plan plan, const Grid& grid);

  /// A worker that reads or makes nothing stays in the graph, with zeros, so that all workers take part in the moves' backward.
  /// Where kernels differ, all gradients depend on the same tensors, so that they do so in second derivatives too.
  /// Cost: both moves and the kernel
  DistributedTensor operator()(const DistributedTensor& x, at::TensorList parameters) const;
  /// The margins that an input's memory may have (DistributedTensor::room), for each dim; none where they would be of no use.
  const std::vector<Pads>& room() const { return read_.room(); }

 private:
  bool links_;  // some worker reads or makes nothing, or kernels differ
  HaloExchange read_;
  Move write_;
  Kernel kernel_;
  std::vector<int64_t> made_;  // the shape of what this worker makes
};

/// Throws InvalidArgument, on the worker that holds the piece and with the layer's name, where x does not hold floating-point
/// numbers, or has another type than `like` (if `like` is given and autocast is off). With `mixes` 16-bit numbers may meet
/// float32.
void check_type(const std::string& layer, const DistributedTensor& x, const at::Tensor& like = {}, bool mixes = false);

/// What a layer has prepared for each layout of an input, so that a step plans nothing. With two inputs, what is prepared for
/// the first contains a PerLayout for the second.
template <class Prepared>
class PerLayout {
 public:
  /// Errors use the names `layer` and `input`.
  PerLayout(std::string layer, Grid grid, std::string input = "input")
      : layer_(std::move(layer)), input_(std::move(input)), grid_(std::move(grid)) {}

  /// What `prepare` returned the first time for this layout; the same on all workers, without communication. The latest kKept
  /// are kept.
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
  /// Throws: InvalidArgument as nn::check_type, with this layer's name
  void check_type(const DistributedTensor& x, const at::Tensor& like = {}, bool mixes = false) const {
    nn::check_type(layer_, x, like, mixes);
  }
  const Grid& grid() const { return grid_; }

 private:
  static constexpr size_t kKept = 8;  // enough for training, its last batch, evaluation, …
  std::string layer_, input_;
  Grid grid_;
  std::list<std::pair<Layout, Prepared>> known_;  // the newest first
};
using Routes = PerLayout<Route>;

/// The layout `made` with sums taken and overlaps added. It is the default layout of a layer's output.
Layout summed(const Layout& made);

}  // namespace adjoin::nn
