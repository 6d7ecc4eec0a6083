#pragma once

#include <cstdint>
#include <vector>

#include "adjoin/base/reduction.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/lab/elements.hpp"

namespace adjoin::lab {

/// One collective on numbers whose result is known.
struct Exercise {
  Collective collective = Collective::barrier;
  int root = 0;
  int64_t count = 0;                 // elements of every rank: broadcast, reduce, all_reduce
  std::vector<int64_t> blocks = {};  // of each rank, so it has an entry per rank: the other collectives
  int turn = 0;                      // in an all_to_all rank r sends blocks[(s + turn * r) mod P] elements to rank s
  int64_t chunk = 0;                 // elements of a piece of a pipeline; 0: the whole message is one piece
  ElementType type = ElementType::int32;
  Reduction reduction = Reduction::sum;

  /// readable: element i of rank r is 100 r + i mod 100. small: a small whole number, chosen so that every type can hold it and
  /// the result of a reduction over any number of ranks.
  enum class Numbers : uint8_t { readable, small };
  Numbers numbers = Numbers::readable;

  int ranks() const { return static_cast<int>(blocks.size()); }
  /// The elements that one rank sends to another in an all_to_all.
  int64_t between(int from, int to) const { return blocks[static_cast<size_t>((to + turn * from) % ranks())]; }
};

/// An exercise of `bytes` bytes. They are those of each rank's buffer (broadcast, reduce, all_reduce); of all blocks together,
/// which are nearly equal (gather, scatter, all_gather, reduce_scatter); or of what each rank sends, in nearly equal blocks
/// (all_to_all). `chunk`: the bytes of a piece of a pipeline. Elements are int32, or uint8 where the bytes are not a multiple
/// of four.
Exercise exercise_of(Collective collective, int ranks, int root, int64_t bytes, int64_t chunk = 0);

/// What algorithms need to know about the exercise; `turn` must be 0.
algorithm::Request request_of(const Exercise& exercise);

/// What a reduction makes of two whole numbers of a type; sums and products wrap around. An average is a sum that is divided later.
int64_t combined(Reduction reduction, ElementType type, int64_t a, int64_t b);

/// Element i of a rank's input where nothing is reduced.
double number_at(Exercise::Numbers numbers, int rank, int64_t i);

/// What a rank gives, and what its output holds before the operation (-1 where the value does not matter) and after it;
/// broadcast and all_reduce work on the output in place. Computed from what each collective means, without any algorithm.
Elements input_of(const Exercise& exercise, int rank);
Elements output_before(const Exercise& exercise, int rank);
Elements output_after(const Exercise& exercise, int rank);

}  // namespace adjoin::lab
