#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <vector>

#include "adjoin/comm/backend.hpp"

namespace adjoin::mpi {

/// MPI's types of the boxes that were sent and received lately, so that an exchange that is repeated makes none.
class BoxTypes {
 public:
  BoxTypes() = default;
  ~BoxTypes();
  BoxTypes(const BoxTypes&) = delete;
  BoxTypes& operator=(const BoxTypes&) = delete;

  /// Elements [begin, begin + count) of the message's box, counted in row-major order, as one element of a committed
  /// type from buffer.data on. It lives until kMost others have been asked for.
  MPI_Datatype type_of(const Message& message, int64_t begin, int64_t count);

 private:
  static constexpr size_t kMost = 64;
  struct Entry {
    ElementType element = ElementType::float32;
    int64_t begin = 0, count = 0;
    std::vector<int64_t> sizes, strides;
    MPI_Datatype type = MPI_DATATYPE_NULL;
  };

  std::array<Entry, kMost> entries_;
  size_t next_ = 0;  // the one that was made first
};

}  // namespace adjoin::mpi
