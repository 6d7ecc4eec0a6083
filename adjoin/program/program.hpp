#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/parallel/bundle.hpp"
#include "adjoin/program/graph.hpp"

namespace adjoin::program {

/// A network that Python exported (torch.export), as a module. Its parameters and buffers have Python's names. forward runs the
/// exported graph, one operator of LibTorch after another, so that all that holds for modules holds for it: autograd, distribute,
/// automatic, Weights.
///
/// In eval mode it runs the file's graph "eval". Without one it runs the training graph with dropout and norms as Python's eval() has
/// them, if the graph shows all that changes.
class Program : public torch::nn::Module {
 public:
  struct Parts;
  struct Bound;
  explicit Program(Parts parts);
  ~Program() override;

  /// What the module in Python returns, from its tensors and whole numbers, in the order of Python's arguments. Several results have
  /// names: keys of dictionaries and places in tuples, "logits", "states.1". Numbers come as tensors.
  /// Throws: InvalidArgument, before anything runs, for inputs of other numbers, types or sizes than were exported; for a training
  ///         pass of what was exported in eval mode; in eval mode where the graph cannot show what changes. Error, with the operator
  ///         and its module, where LibTorch refuses an operation
  template <class... Inputs>
  parallel::Bundle forward(const Inputs&... inputs) {
    return run({c10::IValue(inputs)...});
  }
  parallel::Bundle run(const std::vector<c10::IValue>& inputs);

  /// In training, each part of the graph that is of one of these modules of Python, "encoder.layer.*", keeps for backward what it
  /// reads alone, and backward computes it again, with the same random numbers. A module within another one that is named is a part
  /// of it. The second call takes the place of the first.
  /// Throws: InvalidArgument for a pattern that names no module of an operator, for a module that writes to a value from elsewhere
  ///         (a norm's statistics), or gives several tensors of which all but one cannot be kept
  void recompute(const std::vector<std::string>& modules);

  struct Input {
    std::string name;
    std::optional<TensorSpec> tensor;  ///< none for a whole number
  };
  const std::vector<Input>& inputs() const;
  /// Further names of parameters, with the names under which this module has them.
  const std::vector<std::pair<std::string, std::string>>& shared_names() const;
  /// Names of buffers that are not in Python's state_dict.
  const std::vector<std::string>& passing_buffers() const;
  /// What runs in eval mode: "a graph of its own", "the training graph", or "none: " and why.
  std::string eval_mode() const;
  /// The graph that runs in training mode.
  const OuterGraph& graph() const;
  const std::string& path() const;
  /// The graph of a mode with its tensors, and checks of inputs for it. Throws: as run
  const Bound& bound(bool is_training) const;
  void check(const Bound& bound, const std::vector<c10::IValue>& inputs) const;
  const std::vector<std::string>& recomputed_modules() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Reads a file that torch.export.save or adjoin.export_program wrote.
///
///     auto net = program::load_program("net.pt2");
///     torch::optim::AdamW optimizer(net->parameters());
///     at::Tensor scores = net->forward(pictures);
///
/// Throws: InvalidArgument with one line that names the file and what is wrong; nothing has run then
/// Cost:   reading the file; some milliseconds for a graph of hundreds of operators
std::shared_ptr<Program> load_program(const std::filesystem::path& path);

}  // namespace adjoin::program
