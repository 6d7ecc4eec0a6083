#pragma once

#include <cstdint>
#include <functional>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::train {

/// The elements of this worker's piece that this worker writes and counts: workers with equal pieces each take an equal part.
/// The range is in row-major places of the piece; it is empty where the worker has no piece.
Range share_of(const nn::Parameter& piece);

/// Elements that are contiguous both in a piece and in the global tensor, and where they begin in each, row-major.
struct Run {
  int64_t local = 0, global = 0, count = 0;
};

/// Calls `visit` for the runs of a part of this worker's piece, in the order of the piece; runs that are adjacent in both
/// places are joined.
void visit_runs(const nn::Parameter& piece, const Range& part, const std::function<void(const Run&)>& visit);

}  // namespace adjoin::train
