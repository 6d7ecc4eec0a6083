#pragma once

#include <cstdint>
#include <string>
#include <utility>
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

/// What a layout would cut and move.
struct FoundCuts {
  std::vector<std::pair<std::string, std::string>>
      weights;                      ///< each parameter's cut, "outputs over tp"; "" where it is whole
  std::vector<std::string> inputs;  ///< of each tensor that it takes
  /// Bytes that a worker sends in a step at the sizes of the example: for operations, forward and back, and for the sums of the
  /// gradients of weights that several workers have.
  double of_operations = 0, of_gradients = 0;
};

/// Finds the cuts of a program's weights over `tp` ranks (parallel::automatic), while samples are cut over `dp` ranks. No rank and
/// no message is needed.
/// Throws: InvalidArgument as load_program; for a file that lacks a size of its example
/// Cost:   two forward passes at the sizes of the example, and the search
FoundCuts cuts_of(const std::string& path, int dp, int tp);

}  // namespace adjoin::program
