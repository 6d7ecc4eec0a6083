#pragma once

#include <optional>

#include "adjoin/movement/distributed_tensor.hpp"

namespace adjoin::linalg {

// Products of matrices that are cut over both dims: dim 0 over one axis of a grid, dim 1 over another, the same two axes for
// both matrices. Blocks may be uneven or empty, and the axes may have any sizes. SUMMA goes through one dim in panels: all
// workers of a row or a column of the grid get a factor's panel from the one that holds it.
//
// Along every other axis of the grid the matrices are replicated; the workers along it share the panels and add up their
// results. This is the 2.5-D form: with c copies each worker receives 1/c of the panels, for c times the memory.
//
// A chunk bounds the width of a panel; without one a panel has 32 MiB, or the size of 64 indices if that is more.
//
// Shape:  workers outside the grid hold no elements
// Kinds:  split and replicated, and the result too
// Throws: InvalidArgument on all workers: layouts that do not fit each other or the product, a chunk below 1; in checked mode
//         also layouts, types, chunks or required gradients that differ between workers (compared by an all-gather of 8 bytes
//         per worker). On one worker, and so as the first cause on the others: a piece that does not have its layout's shape
// Source: van de Geijn and Watts, "SUMMA", 1997; Solomonik and Demmel, "Communication-optimal parallel 2.5D matrix
//         multiplication", 2011

/// A B: its rows are cut as those of A, its columns as those of B.
///
/// Adjoint: summa_nt(G, B), cut as A, and summa_tn(A, G), cut as B
/// Cost:    two broadcasts per panel: a worker receives its rows of A and its columns of B, K indices each
DistributedTensor summa_nn(const DistributedTensor& a, const DistributedTensor& b, std::optional<int64_t> chunk = {});

/// A B^T: its rows are cut as those of A, its columns evenly.
///
/// Adjoint: summa_nn(G, B), cut as A, and summa_tn(G, A), cut as B
/// Cost:    per panel a broadcast along a column of the grid and a reduction along a row
DistributedTensor summa_nt(const DistributedTensor& a, const DistributedTensor& b, std::optional<int64_t> chunk = {});

/// A^T B: its rows are cut evenly, its columns as those of B.
///
/// Adjoint: summa_nt(B, G), cut as A, and summa_nn(A, G), cut as B
/// Cost:    per panel a broadcast along a row of the grid and a reduction along a column
DistributedTensor summa_tn(const DistributedTensor& a, const DistributedTensor& b, std::optional<int64_t> chunk = {});

}  // namespace adjoin::linalg
