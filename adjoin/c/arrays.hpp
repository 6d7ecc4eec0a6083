#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "adjoin/c/adjoin.h"
#include "adjoin/partition/layout.hpp"

/// Arrays of the caller as pieces of tensors [batch, channels, *cells].
namespace adjoin::c {

/// What some arrays must have: `layout`'s piece on this rank, whatever its batch. `order` is the solver's.
struct Expected {
  std::string name;      ///< in errors: "inputs"
  const Layout& layout;  ///< with a batch of 1
  int rank = 0;          ///< this one
  bool columns_first = false;
  int64_t channels = 0;  ///< of all arrays
};

/// The arrays. Throws: InvalidArgument for null with a count, and a negative count
std::span<const adjoin_array> span_of(const char* name, int32_t count, const adjoin_array* arrays);
/// The number of samples that the arrays have.
/// Throws: InvalidArgument where they differ, have other sizes than expected, or are described wrongly; `array 0 of inputs: …`
int64_t batch_of(const Expected& expected, std::span<const adjoin_array> arrays);
/// A copy of their elements as one piece of `type`; without elements where this rank has no cells. After batch_of.
at::Tensor read(const Expected& expected, std::span<const adjoin_array> arrays, at::ScalarType type);
/// Copies a piece into the arrays. After batch_of.
void write(const Expected& expected, std::span<const adjoin_array> arrays, const at::Tensor& piece);

at::ScalarType type_of(const char* name, int32_t type);

}  // namespace adjoin::c
