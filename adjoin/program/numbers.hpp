#pragma once

#include <string_view>

#include "adjoin/program/graph.hpp"

namespace adjoin::program {

struct NumberOperation {
  NumberFunction function = nullptr;
  size_t operands = 0;
};

/// What computes with sizes: "_operator.add", "torch.sym_max". No function for another name.
NumberOperation number_operation(std::string_view target);

}  // namespace adjoin::program
