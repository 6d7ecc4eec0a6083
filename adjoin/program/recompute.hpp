#pragma once

#include <set>
#include <string>
#include <vector>

#include "adjoin/program/program.hpp"

namespace adjoin::program {

/// The graph in which the nodes of each module that a pattern names are one node, which is computed again in backward.
/// `weights`: the slots of weights. Of a part of a graph (`all` is false), what does not fit stays as it is.
/// What a module gives besides its last tensor is kept, and what makes it (T5's first block: the bias of positions).
/// Throws: InvalidArgument for a pattern that names none, for a module that writes to a value from elsewhere, or that gives several
///         tensors of which others depend on the last or draw random numbers
Graph with_recomputed(const Graph& graph, const std::set<Slot>& weights, const std::vector<std::string>& patterns,
                      bool all);

/// Patterns of the modules that are many in one list of Python's, "encoder.layer.*", and in none of another such list.
/// Throws: InvalidArgument where there is none
std::vector<std::string> repeated_modules(const Program& net);

/// The outermost module around a node that a pattern names, or "".
std::string module_named(const Node& node, const std::vector<std::string>& patterns);

}  // namespace adjoin::program
