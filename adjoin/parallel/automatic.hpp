#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "adjoin/parallel/distribute.hpp"
#include "adjoin/rules/cost.hpp"

namespace adjoin::parallel {

struct AutomaticOptions {
  /// For the first, second, … tensor that forward gets: the cuts of which one is chosen, {"", "dim 2 over x"}. An input without any
  /// stays whole on every worker.
  std::vector<std::vector<CutText>> inputs = {};
  /// The axes over which weights may be cut. None: all of the grid.
  std::vector<std::string> weights_over = {};
  /// What a move costs, forward and back: its bytes, or times that were measured.
  rules::MoveCost move = rules::bytes_sent;
  /// What a byte that is computed forward costs, in the same unit.
  double computed = rules::kComputed;
};

/// A search for the cuts of a module's weights and inputs.
///
/// Its operations are noted once, and run by their rules on layouts alone. The cost of cuts is
///
///     bytes moved, forward and back, with the sums of gradients over copies  +  0.1 x bytes computed forward,
///
/// both of the worker that has most: the cost by which a way to run an operation is chosen. Each product of two numbers counts as a number
/// that is computed. Without the second summand, most weights would stay whole, as then the least moves.
///
/// Weights of a layer are cut by one text, and so are layers whose names differ in numbers alone, if their shapes are equal. From several
/// beginnings, the one layer whose other cut helps most changes, or two that are used near each other, until none helps. It is not a
/// proof: more than two layers that help together alone are not found.
class CutSearch {
 public:
  /// `code` computes, with these tensors and inputs, what one step computes forward; with its loss, if that is to count. It runs once.
  /// Over axes of one worker nothing is cut.
  /// Throws: InvalidArgument for tensors or inputs that are global or marked already, for a grid without axes or options that name
  ///         others, for code that fails; and as cut_layout
  CutSearch(std::vector<NamedTensor> tensors, const GridShape& grid, const std::vector<at::Tensor>& inputs,
            const std::function<void()>& code, AutomaticOptions options = {});

  /// The best that is found: a function of names, shapes, operations and options.
  Cuts best();
  /// Throws: InvalidArgument as distribute; or where an operation is refused in these layouts
  rules::Cost cost(const Cuts& cuts);

  ~CutSearch();

 private:
  class State;
  const std::unique_ptr<State> state_;
};

/// Finds where the weights of a plain module are to be cut, without a worker or a message: every rank that calls it finds the same.
///
///     const Cuts cuts = parallel::automatic(net.ptr(), grid.shape(), {.inputs = {{"samples over dp"}}}, x);
///     std::cout << to_string(cuts);
///     auto model = parallel::distribute(net.ptr(), grid, cuts);
///
/// `example` are the arguments of the module's forward, of the shapes with which it will train. The module and its weights stay as they
/// are. The loss is not looked at: what forward returns may stay cut, but its sums are taken.
/// Throws: as CutSearch
/// Cost:   one forward pass on this rank, and the search: for a decoder about a second
template <class Module, class... Inputs>
Cuts automatic(const std::shared_ptr<Module>& module, const GridShape& grid, AutomaticOptions options,
               const Inputs&... example) {
  std::vector<at::Tensor> inputs;
  const auto add = [&](const auto& input) {
    if constexpr (std::is_convertible_v<decltype(input), at::Tensor>) inputs.push_back(input);
  };
  (add(example), ...);
  return CutSearch(
             tensors_of(*module), grid, inputs, [&] { module->forward(example...); }, std::move(options))
      .best();
}

/// As it is written in C++, to be read, edited and given to distribute:
///
///     {.weights = {{"blocks.*.up.*", "outputs over tp"},
///                  {"blocks.*.down.*", "inputs over tp"}},
///      .inputs = {"samples over dp"}}
std::string to_string(const Cuts& cuts);

}  // namespace adjoin::parallel
