#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

/// The contents of pieces (parameters, buffers or an optimizer's moments) as global tensors, by name.
using State = std::map<std::string, at::Tensor>;

/// A piece for a number that all workers of a grid's world hold.
Parameter held_by_all(std::string name, at::Tensor number, const Grid& grid);

/// The contents of pieces, nn::parameters_of(module) or those of an optimizer, as global tensors on one rank; empty elsewhere.
///
/// All workers of the world call it. Only the first of several copies is sent: each of its workers sends its piece once, in one
/// message a box.
State gather_state(const std::vector<Parameter>& pieces, int rank = 0);

/// Fills pieces, on any layouts, with what one rank holds, converted to their own types: with the result of gather_state, from
/// a module in other layouts, or with the tensors of a module of torch::nn. All workers of the world call it; only `state` on
/// `rank` is used.
/// Throws: InvalidArgument on all workers where a tensor is missing, belongs to no piece, or has another shape
void scatter_state(const State& state, const std::vector<Parameter>& pieces, int rank = 0);

/// The name of the first tensor that belongs to no piece, and what is wrong with the first piece that has no tensor of its
/// shape; empty where all fit.
using Shapes = std::map<std::string, std::vector<int64_t>>;
std::optional<std::string> first_unknown_tensor(const Shapes& tensors, const std::vector<Parameter>& pieces);
std::optional<std::string> first_mismatch(const Shapes& tensors, const std::vector<Parameter>& pieces,
                                          const std::string& owner);

/// The same pieces with copies of their tensors.
std::vector<Parameter> cloned(std::vector<Parameter> pieces);
/// Exchanges the values of pieces with those of `others`, which have the same names and layouts. Each tensor keeps its memory.
/// Throws: InvalidArgument where names or layouts differ
void swap_tensors(const std::vector<Parameter>& pieces, const std::vector<Parameter>& others);

}  // namespace adjoin::nn
