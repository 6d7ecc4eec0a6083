#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "adjoin/movement/check_gradients.hpp"
#include "adjoin/partition/grid.hpp"

namespace adjoin::testing {

/// A program of parameters, movements and operations of LibTorch on a grid, each of whose values has a kind along each axis,
/// and which gives every parameter one worker's gradient.
struct GradientProgram {
  struct Instruction {
    enum class What : uint8_t { parameter, unary, binary, movement } what;
    size_t which = 0;           // of the operations
    size_t a = 0, b = 0;        // values
    std::string movement = {};  // its short name
    bool as_move = false;       // by layouts
    std::vector<size_t> axes = {};
    std::vector<Kind> kinds = {};  // of the result along each axis; split and partial are one here, split
    int64_t rows = 0;              // of the result; 0: a number
  };
  GridShape grid;
  std::vector<Instruction> code;  // the last is the loss
};

/// On one of these grids, given by the sizes of its axes.
GradientProgram random_program(uint64_t seed, const std::vector<int>& sizes);

/// The parameters, in their order, as this rank has them, and the loss, whose graph is there.
struct RunProgram {
  std::vector<at::Tensor> parameters;
  std::vector<KnownTensor> known;
  at::Tensor loss;
  std::vector<KnownTensor> values = {};  // all that it computes
  std::map<std::string, Kind> loss_kinds = {};
};
RunProgram run(const GradientProgram& program, const Grid& grid);

/// The gradients of run().parameters after backward, summed over the copies.
std::vector<at::Tensor> summed_gradients(const GradientProgram& program, const RunProgram& ran, const Grid& grid);

/// What they must be on a rank: from one graph of all workers' values, in which sums and blocks are LibTorch's operations.
std::vector<std::vector<at::Tensor>> gradients_of_one_worker(const GradientProgram& program);

}  // namespace adjoin::testing
