#pragma once

#include <string>
#include <vector>

#include "adjoin/parallel/distribute.hpp"
#include "adjoin/rules/noted.hpp"

namespace adjoin::parallel {

/// Tensors of a module that are cut by one text: those of a layer, and of layers whose names differ in numbers alone, if their shapes
/// are equal.
struct CutLayers {
  std::vector<std::string> patterns;  ///< which together name these tensors alone
  std::vector<size_t> tensors;
  std::vector<CutText> choices;  ///< the first: whole; some may not fit all of the tensors
};

/// All that the noted code uses and that has a weight, in the order of their first use. Each of these axes may cut dim 0, dim 1, or nothing.
std::vector<CutLayers> cut_layers(const std::vector<NamedTensor>& tensors, const rules::Noted& noted,
                                  const std::vector<std::string>& axes);

}  // namespace adjoin::parallel
