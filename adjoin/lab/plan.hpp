#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::lab {

/// The messages of one rank's program, packed so that thousands of ranks fit into memory: peers are counted from the
/// rank itself, so that ranks of a symmetric algorithm have equal plans, and equal steps in a row are kept once.
class Plan {
 public:
  struct Item {
    int32_t shift = 0;  // the peer is rank + shift, counted around
    int32_t place = 0;  // among the step's transfers
    int64_t bytes = 0;
    bool is_send = false;
    bool operator==(const Item&) const = default;
  };

  /// Throws: InvalidArgument for a peer that is none of the ranks.
  Plan(const algorithm::Program& program, int rank, int ranks, int64_t bytes_per_element);

  /// A place in the plan; the default is the first step.
  struct Cursor {
    size_t run = 0;
    int64_t repeat = 0, step = 0;
  };
  bool is_over(const Cursor& at) const { return at.run == runs_.size(); }
  /// The items of a step by direction, peer and place, each peer's in the order of the program.
  std::span<const Item> items(const Cursor& at) const;
  void advance(Cursor& at) const;
  int64_t steps() const { return steps_; }

  bool operator==(const Plan&) const = default;

 private:
  struct Run {  // of equal steps
    size_t first = 0, count = 0;
    int64_t repeats = 0;
    bool operator==(const Run&) const = default;
  };
  void add(std::span<const Item> step);

  std::vector<Item> items_;
  std::vector<Run> runs_;
  int64_t steps_ = 0;
};

}  // namespace adjoin::lab
