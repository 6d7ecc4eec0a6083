#pragma once

#include <string>

#include "adjoin/program/graph.hpp"

namespace adjoin::program {

/// Reads the JSON of a graph as torch.export writes it: resolves its operators and parses their arguments.
/// Throws: InvalidArgument for text of another form or another version, for a value that is read before it is made, for an operator
///         that may not run, or one whose arguments do not fit
OuterGraph read_graph(const std::string& text);

}  // namespace adjoin::program
