#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>

#include "adjoin/program/program.hpp"

namespace adjoin::program {

/// What a file holds.
struct Program::Parts {
  std::string path;
  OuterGraph training;
  std::optional<OuterGraph> evaluation = {};
  std::map<std::string, at::Tensor> tensors = {};  ///< parameters and buffers, by Python's names
  std::map<std::string, at::Tensor> constants = {}, evaluation_constants = {};
};

}  // namespace adjoin::program
