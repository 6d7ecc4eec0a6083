#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

/// What pieces hold, parameters, buffers or an optimizer's moments, as global tensors by their names.
using State = std::map<std::string, at::Tensor>;

/// A number that all workers of a grid's world hold, as a piece.
Parameter held_by_all(std::string name, at::Tensor number, const Grid& grid);

/// What pieces hold, nn::parameters_of(module) or those of an optimizer, as global tensors on one rank; nothing elsewhere.
///
/// Called by all workers of the world. Each of the first copy sends its piece once, one message a box.
State gather_state(const std::vector<Parameter>& pieces, int rank = 0);

/// Fills pieces, on whatever layouts, with what one rank holds, in their own types: what gather_state gave, of a module in
/// other layouts, or of one of torch::nn. Called by all workers of the world; `state` counts on `rank` alone.
/// Throws: InvalidArgument on all of them where a tensor lacks, is none of the pieces, or has another shape
void scatter_state(const State& state, const std::vector<Parameter>& pieces, int rank = 0);

/// The first of some tensors, by name, which is none of the pieces; and what is wrong with the first piece that has no tensor
/// of its shape. Nothing where all fits.
using Shapes = std::map<std::string, std::vector<int64_t>>;
std::optional<std::string> stranger(const Shapes& tensors, const std::vector<Parameter>& pieces);
std::optional<std::string> misfit(const Shapes& tensors, const std::vector<Parameter>& pieces,
                                  const std::string& owner);

/// The same pieces with copies of their tensors.
std::vector<Parameter> cloned(std::vector<Parameter> pieces);
/// Pieces take what others of the same names and layouts hold, and give them theirs.
/// Throws: InvalidArgument where they are others
void swap_tensors(const std::vector<Parameter>& pieces, const std::vector<Parameter>& others);

}  // namespace adjoin::nn
