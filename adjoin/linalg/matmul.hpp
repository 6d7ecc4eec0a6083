#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::linalg {

// Products of matrices whose T rows are split over a group: rank i holds T_i of them, `rows.size(i)`, possibly none. The
// leading dims, `*`, are the same on all ranks; the matrices at each of their indices are multiplied separately. rows.dim()
// does not matter.
//
// A chunk bounds the memory besides the result, forward and backward: it is the number of rows of the split (nt) or of features
// (nn and tn) that are sent in one round. It need not divide anything. Without a chunk, a round receives 32 MiB, or the size of
// 64 rows or features if that is more. Where the group spans hosts, the next round is sent while this one is multiplied, and
// there is memory for two. The gradients are products with the same chunk.
//
// Kinds:  split, split -> split
// Throws: InvalidArgument on all ranks: a chunk below 1, a split that does not fit the group; in checked mode also leading
//         dims, features, types, chunks, splits or required gradients that differ between ranks (compared by an all-gather of 8
//         bytes per rank). On one rank, and so as the first cause on the others: tensors that do not have the shapes below, one
//         floating type and the CPU as their device.

/// A B^T: each rank's rows of the product of all rows with all rows.
///
/// Shape:   left [*, T_i, D], right [*, T_i, D] -> [*, T_i, T]
/// Adjoint: matmul_nn(G, right) and matmul_tn(G, left)
/// Cost:    each rank receives the others' right once, by messages; a round has `chunk` rows of each: N chunk D elements
at::Tensor matmul_nt(const at::Tensor& left, const at::Tensor& right, const Communicator& group, const Split& rows,
                     std::optional<int64_t> chunk = {});

/// A B: each rank's rows of the product with all rows.
///
/// Shape:   left [*, T_i, T], right [*, T_i, D] -> [*, T_i, D]
/// Adjoint: matmul_nt(G, right) and matmul_tn(left, G)
/// Cost:    each rank receives the others' right once, by messages; a round has `chunk` features of all: T chunk elements
at::Tensor matmul_nn(const at::Tensor& left, const at::Tensor& right, const Communicator& group, const Split& rows,
                     std::optional<int64_t> chunk = {});

/// A^T B, summed over the ranks; each rank keeps its rows of the sum.
///
/// Shape:   left [*, T_i, T], right [*, T_i, D] -> [*, T_i, D]
/// Adjoint: matmul_nt(right, G) and matmul_nn(left, G)
/// Cost:    a reduce-scatter of [*, T, D]; a round has `chunk` features: T chunk elements
at::Tensor matmul_tn(const at::Tensor& left, const at::Tensor& right, const Communicator& group, const Split& rows,
                     std::optional<int64_t> chunk = {});

}  // namespace adjoin::linalg
