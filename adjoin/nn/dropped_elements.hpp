#pragma once

#include <cstdint>

#include "adjoin/base/instruction_set.hpp"

namespace adjoin::nn {

/// Which elements of a row are dropped (those whose word is below `threshold`), and the factor for the others.
struct DroppedElements {
  int64_t size;
  const uint16_t* words;
  uint16_t threshold;
  double factor;
};

/// out = base + dropout(in), rounded once; without a base out = dropout(in). `out` may be `in` or `base`.
///
/// Types: each floating type to itself; float to a 16-bit one and back
template <class Out, class In>
void drop_elements(InstructionSet set, const DroppedElements& row, const In* in, const Out* base, Out* out);

}  // namespace adjoin::nn
