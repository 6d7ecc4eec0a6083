#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/forward_pass.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/bundle.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/pipeline/schedule.hpp"

namespace adjoin::parallel {

/// A part of a network between which and the next one a pipeline may cut: a child of a torch::nn::Sequential or ModuleList, or what
/// comes before or after these.
struct Child {
  std::string name;  ///< "blocks.3"
  /// From what the child before it returns, and the first one from the micro-batch.
  std::function<Bundle(const Bundle& input)> forward = {};
  /// Patterns of its weights' names, as those of Cuts; if there are none, "NAME.*". Children may share weights.
  std::vector<std::string> weights = {};
  double cost = 0;  ///< in any unit; if all are 0, it is the number of elements of its weights
  /// In the place of `forward`, for a child that reads the micro-batch too, which every stage has.
  std::function<Bundle(const Bundle& input, const Bundle& micro_batch)> with_micro_batch = {};
  /// How many random operations the module carries out before it: then their numbers do not depend on where children begin.
  std::optional<int64_t> draws_before = {};
};

/// The children of a Sequential that is called `name` in its module, "" for the module itself. Each is applied to the first tensor of
/// its input and passes the others on.
std::vector<Child> children_of(const std::string& name, const torch::nn::Sequential& list);

/// The children of a ModuleList, each applied by `forward(child, input)`.
/// Throws: InvalidArgument for a child of another type
template <class Module>
std::vector<Child> children_of(const std::string& name, const torch::nn::ModuleList& list,
                               const std::function<Bundle(Module& child, const Bundle& input)>& forward) {
  std::vector<Child> children;
  for (const std::shared_ptr<torch::nn::Module>& child : *list) {
    const std::string full_name = name + "." + std::to_string(children.size());
    const auto module = std::dynamic_pointer_cast<Module>(child);
    require(module != nullptr,
            [&] { return "children_of: expected modules of one type, got another as " + full_name; });
    children.push_back({full_name, [forward, module](const Bundle& x) { return forward(*module, x); }});
  }
  return children;
}

/// Which layout a tensor of these global sizes has between two stages.
using LayoutBetween = std::function<Layout(const std::vector<int64_t>& sizes)>;
/// Tensors as this worker's pieces, with the global sizes of all at the end, and the global tensors that the next stage makes of them.
/// Cost: a move of each tensor to its layout
Bundle for_next_stage(const Bundle& tensors, const Grid& stage, const LayoutBetween& between);
Bundle from_previous_stage(const Bundle& pieces, const Grid& stage, const LayoutBetween& between);
/// The workers of a part of a grid as a world of their own, in which operations on global tensors move data.
Grid as_world(const Grid& part);
/// Of one micro-batch, random operations are counted from a multiple of this number on.
constexpr int64_t kMostDraws = int64_t{1} << 32;

struct PipelinedOptions {
  /// Of the weights and inputs over the axes of a stage's grid, as for `distribute`.
  Cuts cuts = {};
  /// How each stage has the tensors that it gets from the one before: as the first input, if nothing is said. It changes what moves,
  /// not the values.
  std::optional<CutText> between = {};
  std::vector<int> sizes =
      {};  ///< of each stage, the number of its children; if not given, stages have nearly equal costs
  std::string axis = "pp";
};

/// A plain torch::nn::Module, whose code stays as it is, on the ranks of a pipeline. Each rank keeps the weights of its own stages:
///
///     std::vector<Child> children = children_of("blocks", net->blocks);
///     children.insert(children.begin(), {"table", [&](const at::Tensor& ids) { return net->table(ids); }});
///     Pipelined model(*net, children, grid, pipeline::make_schedule("1f1b", 4, 8));
///     torch::optim::AdamW optimizer(model.weights(), 1e-3);
///     const double loss = model.run({.seed = 1, .number = step, .training = true}, micro_batches,
///                                   [&](int i, const at::Tensor& y) { return at::mse_loss(y, targets[i]); });
///     optimizer.step();
///
/// A stage's weights are global tensors on the part of the grid at its coordinate along `axis`, so that its module is cut along the
/// other axes meanwhile.
class Pipelined {
 public:
  /// A micro-batch's part of the loss, for which gradients are computed; undefined where none are.
  using Loss = std::function<at::Tensor(int micro_batch, const Bundle& output)>;

  /// All weights become those of the module on the grid's first rank; those of other stages lose their memory. All ranks of the grid
  /// call it with modules of the same names, shapes and types. The module must outlive this object.
  /// Throws: InvalidArgument for a schedule of another number of ranks or one that gives a rank no stage, for more stages than
  ///         children, sizes that do not fit, a pattern that names no weight or a weight that no child names, or as Distributed
  /// Cost:   a broadcast of each weight
  Pipelined(const torch::nn::Module& module, std::vector<Child> children, const Grid& grid, pipeline::Schedule schedule,
            PipelinedOptions options = {});

  /// A step of a training: gradients of the sum of the losses are added to those of the weights. With gradients off, the forward
  /// pass alone, of any number of micro-batches. Every rank has the whole micro-batches. Returns the sum of the losses, on all ranks.
  ///
  /// Random operations depend on the step, the micro-batch, the child, and their number within it, and not on the cuts.
  /// Throws: InvalidArgument for another number of micro-batches than the schedule's, or as run_pipeline
  /// Cost:   as run_pipeline, and a message with the sizes; an all-reduce of the gradient of each weight that stages share
  double run(const Step& step, const std::vector<Bundle>& micro_batches, const Loss& loss);

  /// This rank's weights that require a gradient, for an optimizer of LibTorch.
  std::vector<at::Tensor> weights() const;
  /// The weights and buffers of all stages as pieces of global tensors, for checkpoints; of those of other stages without elements.
  const std::vector<nn::Parameter>& parameters() const { return parameters_; }
  /// Those that require a gradient, for a parallel::Optimizer whose `workers` are the grid's world; as Distributed::trained.
  std::vector<nn::Parameter> trained();

  /// "stage 0 on pp 0: table to blocks.1", a line for each stage.
  std::string to_string() const;

 private:
  struct Weight {
    NamedTensor named;
    std::vector<int> held_at;  // ascending coordinates along the axis
  };
  int coordinate_of(size_t child) const;
  size_t first_of(int stage) const { return stage == 0 ? 0 : ends_[static_cast<size_t>(stage) - 1]; }
  bool is_here(const Weight& weight) const;
  void cut_into_stages(const std::vector<double>& costs);
  void keep_own_weights();
  Layout layout_of(const Weight& weight) const;
  Bundle input_of(const Bundle& micro_batch) const;
  Layout between(const std::vector<int64_t>& sizes) const;
  std::vector<Weight> shared_here() const;
  void sum_over_stages(const at::Tensor& weight, const std::vector<int>& held_at, const at::Tensor& before) const;

  std::vector<Child> children_;
  pipeline::Schedule schedule_;
  Grid grid_, stage_;
  PipelinedOptions options_;
  std::vector<size_t> ends_;     // of the stages, among the children
  std::vector<Weight> weights_;  // of all stages
  std::unique_ptr<Distributed> here_;
  std::vector<nn::Parameter> parameters_;
  bool gives_pieces_ = false;
};

}  // namespace adjoin::parallel
