#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/program/program.hpp"
#include "adjoin/program/run.hpp"

namespace adjoin::program {

/// What a file holds.
struct Program::Parts {
  std::string path;
  OuterGraph training;
  std::optional<OuterGraph> evaluation = {};
  std::map<std::string, at::Tensor> tensors = {};  ///< parameters and buffers, by Python's names
  std::map<std::string, at::Tensor> constants = {}, evaluation_constants = {};
};

/// A graph with the tensors of its weights.
struct Program::Bound {
  const OuterGraph* outer = nullptr;
  const Graph* graph = nullptr;  // `outer`'s, or one made of it
  std::vector<std::pair<Slot, at::Tensor>> weights = {};
  std::vector<Slot> user_inputs = {};
  std::map<std::string, at::Tensor> buffers = {};

  /// On which tensors are made: that of the weights.
  at::Device device() const;
  /// Weights and inputs in their slots.
  Values begin(const std::vector<c10::IValue>& inputs) const;
  /// What the module returns, when the graph has run; new values of buffers are written.
  parallel::Bundle results(const Values& values) const;
};

}  // namespace adjoin::program
