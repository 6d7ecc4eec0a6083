#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// While it lives, counts the bytes of tensors that this thread allocates, and ranks on threads that it launches. A library's
/// own scratch memory is not counted.
class PeakMemory {
 public:
  PeakMemory();
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  int64_t current_bytes() const;
  /// The most bytes in use at once since the beginning or the last reset.
  int64_t peak_bytes() const;
  /// The same for each rank of a world; all ranks call it.
  std::vector<int64_t> peak_bytes_of_all(const Communicator& world) const;
  void reset_peak();

 private:
  struct Guarded;
  std::unique_ptr<Guarded> guarded_;
};

}  // namespace adjoin
