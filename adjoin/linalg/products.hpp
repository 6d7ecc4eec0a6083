#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace adjoin::linalg {

/// The products of two matrices: A B^T, A B and A^T B.
enum class Product : uint8_t { nt, nn, tn };

/// "nt", "nn", "tn".
const char* name(Product product);

/// Three ways to multiply matrices that are distributed over many workers, each without autograd.
///
/// They are the derivatives of one form, tr(C^T A B): nn(A, B) is distributed as C, nt(C, B) as A, tn(A, C) as B. So
/// the gradients of each are the other two, and derivatives of any order need no further products.
struct Products {
  std::function<at::Tensor(const at::Tensor& left, const at::Tensor& right)> nt, nn, tn;
};

/// One of the products such that autograd differentiates through it, to any order. For backward, a factor is kept where
/// the other one requires a gradient. Every worker that takes part must call backward.
///
/// Adjoint: nt: nn(G, right) and tn(G, left); nn: nt(G, right) and tn(left, G); tn: nt(right, G) and nn(left, G)
at::Tensor multiply(Product product, const Products& products, const at::Tensor& left, const at::Tensor& right);

}  // namespace adjoin::linalg
