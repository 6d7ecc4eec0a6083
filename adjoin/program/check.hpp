#pragma once

#include "adjoin/program/graph.hpp"

namespace adjoin::program {

/// Compares what the file declares of each value with what LibTorch finds for the operator on tensors without memory, of the sizes
/// with which the program was exported. So no file allocates more than it declares.
/// Throws: InvalidArgument that names the first node that contradicts the file
/// Cost: some microseconds a node; no memory of tensors
void check(const Graph& graph);

}  // namespace adjoin::program
