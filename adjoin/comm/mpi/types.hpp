#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/base/element_type.hpp"
#include "adjoin/base/reduction.hpp"

namespace adjoin::mpi {

/// Of each element type another one, so that a reduction of ours knows what it is given.
MPI_Datatype type_of(ElementType type);

/// What MPI applies to two operands; finish_reduction makes the rest. It lives as long as MPI.
MPI_Op operation_of(ElementType type, Reduction reduction);

/// MPI's types of the boxes that were sent and received lately, so that an exchange that is repeated makes none.
class BoxTypes {
 public:
  /// No MPI call counts more than `most`.
  explicit BoxTypes(int64_t most) : most_(most) {}
  ~BoxTypes();
  BoxTypes(const BoxTypes&) = delete;
  BoxTypes& operator=(const BoxTypes&) = delete;

  /// A box of strided memory as one element of a committed type. It lives until kMost others have been asked for.
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
  size_t next_ = 0;  // the one that was made first
};

}  // namespace adjoin::mpi
