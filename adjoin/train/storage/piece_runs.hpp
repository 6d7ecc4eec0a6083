#pragma once

#include <cstdint>
#include <functional>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::train {

/// The elements of this worker's piece that it writes and counts: of as many as there are workers with equal pieces, each
/// takes an equal part. Places in the piece, row-major; none where it has no piece.
Range share_of(const nn::Parameter& piece);

/// Elements that lie in a row in a piece and in the global tensor: where they begin in both, row-major.
struct Run {
  int64_t local = 0, global = 0, count = 0;
};

/// Calls `visit` for the runs of a part of this worker's piece, in the order of the piece; runs that follow each other in both
/// are one.
void visit_runs(const nn::Parameter& piece, const Range& part, const std::function<void(const Run&)>& visit);

}  // namespace adjoin::train
