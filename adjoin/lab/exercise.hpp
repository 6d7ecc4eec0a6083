#pragma once

#include <cstdint>
#include <vector>

#include "adjoin/base/element_type.hpp"
#include "adjoin/comm/algorithm/catalogue.hpp"

namespace adjoin::lab {

/// One collective with numbers whose outcome is known: element i of rank r is 100 r + i mod 100, and reductions are sums.
struct Exercise {
  algorithm::Request request;
  /// int32, or uint8 where the bytes do not divide by four; then all numbers are modulo 256.
  ElementType type = ElementType::int32;
};

/// An exercise of that many bytes: of each rank's buffer (broadcast, reduce, all_reduce); of all blocks together, which
/// are nearly equal (gather, scatter, all_gather, reduce_scatter); of what each rank sends, in nearly equal blocks
/// (all_to_all). `chunk`: the bytes of a pipeline's piece; 0: the whole message is one.
Exercise exercise_of(Collective collective, int ranks, int root, int64_t bytes, int64_t chunk = 0);

/// What a rank gives, and what its output holds before (-1 where nothing counts) and after the operation. Broadcast and
/// all_reduce work on the output in place.
std::vector<int64_t> input_of(const algorithm::Request& request, int rank);
std::vector<int64_t> output_before(const algorithm::Request& request, int rank);
std::vector<int64_t> output_after(const algorithm::Request& request, int rank);

}  // namespace adjoin::lab
