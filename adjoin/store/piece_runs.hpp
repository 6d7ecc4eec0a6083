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

/// A complex piece as pairs of reals along one more last dim, in the same memory unless it is a view that conjugates. A file
/// holds complex128 numbers so, for which safetensors has no type.
nn::Parameter in_pairs(nn::Parameter piece);
/// The piece as a file holds it, where it has this type there.
nn::Parameter piece_in_file(const nn::Parameter& piece, at::ScalarType stored);

}  // namespace adjoin::train
