#pragma once

#include <optional>

#include "adjoin/movement/distributed_tensor.hpp"

namespace adjoin::linalg {

// Products of matrices that are cut over both dims: dim 0 over one axis of a grid, dim 1 over another, the same two for
// both. Blocks may be uneven or empty, and the axes of any sizes. SUMMA goes through one dim in panels: what a panel of
// a factor is, all workers of a row or a column of the grid get from the one that holds it.
//
// Along every other axis of the grid the matrices are replicated; its workers share the panels and add up their results,
// which is the 2.5-D form: with c copies each worker receives 1/c of the panels, for c times the memory.
//
// A chunk bounds the width of a panel; without one a panel takes 32 MiB, or what 64 indices take.
//
// Shape:  workers outside the grid hold no elements
// Kinds:  split and replicated, as the result
// Throws: InvalidArgument on all workers: layouts that do not fit together or the product, a chunk below 1; in checked mode
//         also layouts, types, chunks or needs of a gradient that differ between workers (compared by an all-gather of 8
//         bytes a worker). On one worker, and so as the others' first cause: a piece that is not what the layout says
// Source: van de Geijn and Watts, "SUMMA", 1997; Solomonik and Demmel, "Communication-optimal parallel 2.5D matrix
//         multiplication", 2011

/// A B, cut as the rows of A and the columns of B.
///
/// Adjoint: summa_nt(G, B), cut as A, and summa_tn(A, G), cut as B
/// Cost:    two broadcasts a panel: a worker receives its rows of A and its columns of B, K indices each
DistributedTensor summa_nn(const DistributedTensor& a, const DistributedTensor& b, std::optional<int64_t> chunk = {});

/// A B^T, cut as the rows of A, and its columns evenly.
///
/// Adjoint: summa_nn(G, B), cut as A, and summa_tn(G, A), cut as B
/// Cost:    a broadcast a panel along a column of the grid, and a reduction along a row
DistributedTensor summa_nt(const DistributedTensor& a, const DistributedTensor& b, std::optional<int64_t> chunk = {});

/// A^T B, its rows cut evenly, and its columns as those of B.
///
/// Adjoint: summa_nt(B, G), cut as A, and summa_nn(A, G), cut as B
/// Cost:    a broadcast a panel along a row of the grid, and a reduction along a column
DistributedTensor summa_tn(const DistributedTensor& a, const DistributedTensor& b, std::optional<int64_t> chunk = {});

}  // namespace adjoin::linalg
