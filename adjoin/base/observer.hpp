#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include "adjoin/base/element_type.hpp"

namespace adjoin {

/// One call of one rank, as observers, backends and diagnoses see it while it runs.
struct Operation {
  std::string_view name;   // "all_reduce"
  int rank = 0, size = 1;  // of the group that it runs on
  int64_t count = 0;       // elements of this rank
  ElementType type = ElementType::float32;
  int root = -1, peer = -1, tag = -1;               // -1 where there is none
  std::span<const int64_t> counts = {};             // of each rank, where they may differ; what an all_to_all sends
  std::span<const int64_t> receive_counts = {};     // of an all_to_all
  std::string_view reduction = {}, algorithm = {};  // "" where there is none, or the backend's own
  uint64_t sequence = 0;                            // its place among the calls of this rank on this group, from 1
  std::source_location where = {};                  // in the caller's code

  int64_t bytes() const { return count * size_of(type); }
};

/// "all_reduce #14 (ring, sum, float32 x 1024) at trainer.cpp:88".
std::string describe(const Operation& operation);
std::string describe(const Operation& operation, const std::string& where);

/// "trainer.cpp:88".
std::string describe(const std::source_location& where);

/// Sees every operation of the communicators that it is attached to. Counts, traces, time accounting and the
/// flight record are observers. Called on the thread that makes the call: a worker's own, or that of its stream for
/// asynchronous ones. So an observer that several workers share, or one worker with its stream, guards itself.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void begin(const Operation&) {}
  virtual void end(const Operation&) {}
};

}  // namespace adjoin
