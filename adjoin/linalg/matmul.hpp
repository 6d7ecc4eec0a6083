#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::linalg {

// Products of matrices whose T rows are split over a group: rank i holds T_i of them, `rows.size(i)`, which may be none.
// Leading dims, `*`, are the same on all ranks; each of their matrices is multiplied by itself. rows.dim() does not matter.
//
// A chunk bounds the memory beside the result, forward and backward: of a row of the split (nt) or of features (nn and tn)
// so much travels in a round as `chunk` says. It need not divide anything; without one, a round receives 32 MiB or what
// 64 rows or features take, if that is more. Where the group spans hosts, the next round travels while this one is
// multiplied, and there is memory for two. The gradients are products of the same chunk.
//
// Kinds:  split, split -> split
// Throws: InvalidArgument on all ranks: a chunk below 1, a split that does not fit the group; in checked mode also leading
//         dims, features, types, chunks, splits or needs of a gradient that differ between ranks (compared by an
//         all-gather of 8 bytes a rank). On one rank, and so as the others' first cause: tensors that are not of the
//         shapes below, of one floating type, on the CPU.

/// A B^T: each rank's rows of the product of all rows with all rows.
///
/// Shape:   left [*, T_i, D], right [*, T_i, D] -> [*, T_i, T]
/// Adjoint: matmul_nn(G, right) and matmul_tn(G, left)
/// Cost:    each rank receives the others' right once, by messages, a round `chunk` rows of each: N chunk D elements
at::Tensor matmul_nt(const at::Tensor& left, const at::Tensor& right, const Communicator& group, const Split& rows,
                     std::optional<int64_t> chunk = {});

/// A B: each rank's rows of the product with all rows.
///
/// Shape:   left [*, T_i, T], right [*, T_i, D] -> [*, T_i, D]
/// Adjoint: matmul_nt(G, right) and matmul_tn(left, G)
/// Cost:    each rank receives the others' right once, by messages, a round `chunk` features of all: T chunk elements
at::Tensor matmul_nn(const at::Tensor& left, const at::Tensor& right, const Communicator& group, const Split& rows,
                     std::optional<int64_t> chunk = {});

/// A^T B, summed over the ranks; each keeps its rows of the sum.
///
/// Shape:   left [*, T_i, T], right [*, T_i, D] -> [*, T_i, D]
/// Adjoint: matmul_nt(right, G) and matmul_nn(left, G)
/// Cost:    a reduce-scatter of [*, T, D], a round `chunk` features: T chunk elements
at::Tensor matmul_tn(const at::Tensor& left, const at::Tensor& right, const Communicator& group, const Split& rows,
                     std::optional<int64_t> chunk = {});

}  // namespace adjoin::linalg
