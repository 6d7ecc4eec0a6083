#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "adjoin/movement/forward_pass.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/grid.hpp"

namespace adjoin {
class DrawsAgain;
class DrawsAlike;
}  // namespace adjoin

namespace adjoin::parallel {

/// How one dim of a tensor is cut, as text:
///
///     "outputs over tp"                     dim 0, in balanced parts
///     "inputs over tp by 64"                dim 1, in units of 64: heads stay whole
///     "outputs over tp in 3 parts by 64"    dim 0 is three parts one after another, each of which is cut so: a fused q, k, v
///     "dim 2 over x, dim 3 over y"
///
/// Names of dims: of weights "outputs" 0 and "inputs" 1, "words" 0 and "features" 1, "channels" 0 is "outputs"; of inputs
/// "samples" 0 and "tokens" 1. `over` takes several axes: "samples over dp and ep".
using CutText = std::string;

/// Where the weights of a module are cut, and its inputs. What no cut names is whole on every worker.
struct Cuts {
  /// Patterns of parameters' names, in which `*` stands for any text, and how what they name is cut. A dim that a parameter does not
  /// have is not cut: "blocks.*.down.*" names a bias too, which has no inputs.
  std::vector<std::pair<std::string, CutText>> weights;
  /// For the first, second, … tensor that `Distributed::forward` gets.
  std::vector<CutText> inputs = {};
};

/// The layout of a tensor of this shape: whole along the axes that cut nothing, with `kind` there.
/// Throws: InvalidArgument for a text that says something else, an axis that the grid lacks or that is named twice, or a dim that is
///         cut twice
Layout cut_layout(const CutText& cut, const std::vector<int64_t>& shape, const GridShape& grid, Kind kind);

/// A parameter or a buffer of a module.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  bool is_buffer = false;
};
/// Those of a module, each once, under its first name.
std::vector<NamedTensor> tensors_of(const torch::nn::Module& module);

/// Whether `*` of a pattern can stand for texts with which it is the name.
bool pattern_names(std::string_view pattern, std::string_view name);
/// Throws: InvalidArgument for a pattern that names none of the tensors
void check_patterns(const Cuts& cuts, const std::vector<NamedTensor>& tensors);
/// The layout of a parameter or a buffer. Weights are copied along the axes that do not cut them: each use says what it needs.
/// Throws: InvalidArgument where two patterns cut it differently, and as cut_layout
Layout layout_by(const Cuts& cuts, const NamedTensor& tensor, const GridShape& grid);
/// Those of all tensors. Throws: InvalidArgument as check_patterns and layout_by
std::vector<Layout> layouts_of(const std::vector<NamedTensor>& tensors, const GridShape& grid, const Cuts& cuts);

/// A module whose parameters and buffers are global tensors, so that its code, which stays as it is, runs on all workers of a grid.
class Distributed {
 public:
  /// The parameters and buffers become those of the module on rank 0, in place, on the layouts of the cuts. All workers of the grid
  /// call it with modules of the same names, shapes and types. The module must outlive this object.
  /// Throws: InvalidArgument, on all workers and before anything moves, for a pattern that names no weight, for a weight that two
  ///         patterns cut differently, and as cut_layout
  /// Cost:   a move of each tensor from rank 0
  Distributed(torch::nn::Module& module, const Grid& grid, Cuts cuts)
      : Distributed(tensors_of(module), grid, std::move(cuts)) {}
  /// The same for tensors that some other code uses as weights, such as a module of Python's.
  Distributed(const std::vector<NamedTensor>& tensors, const Grid& grid, Cuts cuts);
  ~Distributed();
  Distributed(Distributed&&) noexcept;
  Distributed& operator=(Distributed&&) noexcept;

  /// Begins a step: random operations draw by it and their number, counted on from `drawn`.
  void begin(const Step& step, int64_t drawn = 0) const;
  /// While it lives, also operations that draw on plain tensors, such as at::rand, draw the same on all workers; `forward` holds one.
  std::shared_ptr<DrawsAlike> draw_alike() const;
  /// The random operations since then, from which what is computed again draws again (DrawsAgain).
  int64_t drawn() const;
  std::shared_ptr<DrawsAgain> draw_again(int64_t drawn) const;
  /// A tensor that all workers have, as the global tensor that the cuts say of input `index`: of integers that no cut names, as it is.
  at::Tensor input(const at::Tensor& whole, size_t index = 0) const;
  /// The same, cut as the text says.
  at::Tensor laid_out(const at::Tensor& whole, const CutText& cut) const;

  /// The parameters and buffers as pieces of global tensors, by the module's names: for checkpoints, check_gradients, and
  /// parallel::Optimizer. From the first call of `trained` on, backward adds its gradients to those of these pieces.
  const std::vector<nn::Parameter>& parameters() const;
  /// Those that require a gradient, for parallel::Optimizer. Otherwise the gradients are global tensors, each of which is summed
  /// after each backward, for the optimizers of LibTorch.
  const std::vector<nn::Parameter>& trained() const;
  /// The same in ZeRO's stage 3. From the first call on each worker keeps only its shard of what others have copies of, and has the
  /// whole piece while an operation reads it, of at most two modules at a time. `parameters` then returns shards too.
  /// Cost: an all-gather of each weight in each of forward and backward, and a reduce-scatter of its gradient
  /// Throws: InvalidArgument after a call of `trained`, which this one excludes
  const std::vector<nn::Parameter>& shards() const;
  /// Frees the memory of pieces that are whole. Else up to two modules keep it from a forward pass until its backward.
  void release_whole() const;

  const Grid& grid() const;
  const Cuts& cuts() const;
  /// "words.weight [50, 64]: words over tp", a line for each parameter.
  std::string to_string() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// The module and its Distributed together: `forward` is the module's own, for a step, with its first tensors as the cuts say.
template <class Module>
class DistributedModule : public Distributed {
 public:
  DistributedModule(std::shared_ptr<Module> module, const Grid& grid, Cuts cuts)
      : Distributed(*module, grid, std::move(cuts)), module_(std::move(module)) {}

  template <class... Inputs>
  auto forward(const Step& step, const Inputs&... inputs) {
    begin(step);
    const auto alike = draw_alike();
    size_t index = 0;
    std::tuple<Inputs...> laid_out{as_input(inputs, index)...};  // in this order
    return std::apply([this](const auto&... given) { return module_->forward(given...); }, laid_out);
  }
  Module& operator*() const { return *module_; }
  Module* operator->() const { return module_.get(); }

 private:
  at::Tensor as_input(const at::Tensor& whole, size_t& index) const { return input(whole, index++); }
  template <class Other>
  const Other& as_input(const Other& other, size_t&) const {
    return other;
  }

  std::shared_ptr<Module> module_;
};

/// Lays out a plain torch::nn::Module:
///
///     auto model = parallel::distribute(net.ptr(), grid, {{{"blocks.*.up.*", "outputs over tp"},
///                                                          {"blocks.*.down.*", "inputs over tp"}}, {"samples over dp"}});
///     const at::Tensor loss = at::cross_entropy_loss(model.forward({.seed = 1, .number = step, .training = true}, x), y);
///     loss.backward();
///     optimizer.step();  // of torch::optim
///
/// Throws: as Distributed
template <class Module>
DistributedModule<Module> distribute(std::shared_ptr<Module> module, const Grid& grid, Cuts cuts) {
  return DistributedModule<Module>(std::move(module), grid, std::move(cuts));
}

}  // namespace adjoin::parallel
