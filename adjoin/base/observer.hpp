#pragma once

#include <cstdint>
#include <source_location>
#include <string_view>

#include "adjoin/base/element_type.hpp"

namespace adjoin {

/// One operation of one rank, as observers see it.
struct Operation {
  std::string_view name;   // "all_reduce"
  int rank = 0, size = 1;  // of the group that it runs on
  int64_t count = 0;       // elements of this rank
  ElementType type = ElementType::float32;
  int root = -1, peer = -1, tag = 0;  // -1 where there is none
  uint64_t sequence = 0;              // its place among the operations of this rank on this group
  std::source_location where;

  int64_t bytes() const { return count * size_of(type); }
};

/// Sees every operation of the communicators that it is attached to. Counts, traces, time accounting and the
/// flight record are observers. Called on the worker's own thread, so an observer shared by workers guards itself.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void begin(const Operation&) {}
  virtual void end(const Operation&) {}
};

}  // namespace adjoin
