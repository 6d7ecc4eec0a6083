#pragma once

#include <set>
#include <string>
#include <vector>

#include "adjoin/program/graph.hpp"

namespace adjoin::program {

/// The graph in which the nodes of each module that a pattern names are one node, which is computed again in backward.
/// `weights`: the slots of weights. Of a part of a graph (`all` is false), what does not fit stays as it is.
/// Throws: InvalidArgument for a pattern that names none, for a module that gives several tensors or writes to a value from elsewhere
Graph with_recomputed(const Graph& graph, const std::set<Slot>& weights, const std::vector<std::string>& patterns,
                      bool all);

/// The outermost module around a node that a pattern names, or "".
std::string module_named(const Node& node, const std::vector<std::string>& patterns);

}  // namespace adjoin::program
