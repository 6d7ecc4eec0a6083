#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "adjoin/c/adjoin.h"

/// Arrays of the caller as pieces of tensors [batch, channels, *cells].
namespace adjoin::c {

/// Arrays that are a rank's part of a field, and what they must have: its cells of it, whatever the batch.
struct Field {
  std::string name;            ///< in errors: "inputs"
  std::vector<int64_t> piece;  ///< the shape of a piece of one sample; [0] where this rank has no cells
  size_t space = 0;            ///< the number of its dims of space
  bool columns_first = false;  ///< the solver's order
  int64_t channels = 0;        ///< of all arrays
  int32_t count = 0;
  const adjoin_array* arrays = nullptr;
  bool is_written = false;
};

/// The number of samples that the arrays have.
/// Throws: InvalidArgument for null with a count, a negative count, and where they differ, have other sizes than expected, or are described
///         wrongly; `1st array of inputs: …`
int64_t batch_of(const Field& field);
/// A copy of their elements as one piece of `type`; without elements where this rank has no cells. After batch_of.
at::Tensor read(const Field& field, at::ScalarType type);
/// Copies them into a piece, which has the field's channels. After batch_of.
void read_into(const at::Tensor& piece, const Field& field);
/// Copies a piece into the arrays. After batch_of.
void write(const Field& field, const at::Tensor& piece);

at::ScalarType type_of(const char* name, int32_t type);

}  // namespace adjoin::c
