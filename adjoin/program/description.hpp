#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace adjoin::program {

/// What a file holds, for people.
struct Description {
  struct Tensor {
    std::string name, type;
    std::vector<std::string> sizes;  ///< numbers, and names of sizes that may change
  };
  struct Operator {
    std::string name;
    int64_t count;     ///< in the training graph
    std::string runs;  ///< on global tensors: "by a rule", "as its parts", "gathered", "on every rank"
  };
  std::string path;
  std::vector<Tensor> inputs, parameters, buffers;
  std::vector<std::string> outputs;
  std::vector<std::pair<std::string, std::string>> shared;  ///< further names of parameters, with the first
  std::vector<Operator> operators;                          ///< in alphabetical order
  int64_t elements = 0;                                     ///< of all parameters
  std::string
      eval_mode;  ///< "a graph of its own", "the training graph", "none: aten.rand in drop draws random numbers"
};

/// Throws: InvalidArgument as load_program
Description describe(const std::string& path);

}  // namespace adjoin::program
