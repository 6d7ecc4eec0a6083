#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/base/element_type.hpp"
#include "adjoin/base/not_copied.hpp"
#include "adjoin/base/reduction.hpp"

namespace adjoin::mpi {

/// A different MPI type for each element type, so that our reductions know the type of their operands.
MPI_Datatype type_of(ElementType type);

/// What MPI applies to two operands; finish_reduction does the rest. The operation lives as long as MPI.
MPI_Op operation_of(ElementType type, Reduction reduction);

/// MPI's types of the boxes that were sent and received recently, so that a repeated exchange makes none.
class BoxTypes : NotCopied {
 public:
  /// No MPI call counts more than `most` elements.
  explicit BoxTypes(int64_t most) : most_(most) {}
  ~BoxTypes();

  /// A box of strided memory as one element of a committed type. The type lives until kMost others have been requested.
  MPI_Datatype type_of(ElementType element, std::span<const int64_t> sizes, std::span<const int64_t> strides);

 private:
  static constexpr size_t kMost = 64;
  struct Entry {
    ElementType element = ElementType::float32;
    std::vector<int64_t> sizes, strides;
    MPI_Datatype type = MPI_DATATYPE_NULL;
  };

  const int64_t most_;
  std::array<Entry, kMost> entries_;
  size_t next_ = 0;  // the oldest one
};

}  // namespace adjoin::mpi
