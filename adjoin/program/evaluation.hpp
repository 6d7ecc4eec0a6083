#pragma once

#include <string>

#include "adjoin/program/graph.hpp"

namespace adjoin::program {

/// Whether a graph was exported in eval mode: it drops nothing where modules drop in training.
/// Returns the operator and its module, or "".
std::string without_dropout(const Graph& graph);

/// What a module's eval() makes of its training graph: dropout drops nothing, norms use their running statistics and no longer change
/// them.
struct Evaluation {
  Graph graph;
  std::string why_not = {};  ///< an operator of which the graph does not show whether it runs in eval mode
};
Evaluation evaluation_of(const OuterGraph& training);

}  // namespace adjoin::program
