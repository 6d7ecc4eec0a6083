#include "adjoin/nn/fixed/product.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/on_threads.hpp"

namespace adjoin::nn::fixed {
namespace {

// MKL keeps an element's order of summands from 4 rows and 12 columns on, oneDNN from fewer: measured on AMD with AVX-512. `adjoin
// doctor --same-bits` tries it.
constexpr int64_t kLeast = 16;
// LibTorch gives 16-bit products of at most 16^3 multiplications to other code than oneDNN's. No piece is that small.
constexpr int64_t kLeastOf16Bits = 32;

void check_type(const at::Tensor& tensor) {
  require(tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16, [&] {
    return std::string("products with the same bits in every layout are for float32 and bfloat16, not ") +
           c10::toString(tensor.scalar_type());
  });
}

int64_t least_of(const at::Tensor& factor) {
  return factor.scalar_type() == at::kFloat ? kLeast : kLeastOf16Bits;
}

/// x with zeros after its first `size` elements along a dim, where that has fewer.
at::Tensor padded(const at::Tensor& x, int64_t dim, int64_t size) {
  if (x.size(dim) >= size) return x;
  std::vector<int64_t> shape = x.sizes().vec();
  shape[static_cast<size_t>(dim)] = size;
  const at::Tensor all = at::zeros(shape, x.options());
  all.narrow(dim, 0, x.size(dim)).copy_(x);
  return all;
}

/// Calls `multiply(a, b, out)` for a piece of a result, with enough rows and columns; `out` begins as `result` is.
template <class Multiply>
void multiply_padded(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, const Multiply& multiply) {
  const int64_t rows = result.size(0), columns = result.size(1), least = least_of(a);
  const bool is_deep = a.scalar_type() == at::kFloat || a.size(1) >= kLeast;
  if (rows >= least && columns >= least && is_deep) return multiply(a, b, result);
  at::Tensor out = padded(padded(result, 0, least), 1, least);
  at::Tensor left = padded(a, 0, least), right = padded(b, 1, least);
  if (!is_deep) left = padded(left, 1, kLeast), right = padded(right, 0, kLeast);
  multiply(left, right, out);
  if (!out.is_same(result)) result.copy_(out.narrow(0, 0, rows).narrow(1, 0, columns));
}

/// The same on all threads: the longer side of the result is cut into pieces.
template <class Multiply>
void multiply_in_pieces(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, const Multiply& multiply) {
  const int dim = result.size(0) >= result.size(1) ? 0 : 1;
  on_one_thread_each(result.size(dim), least_of(a), [&](Range piece) {
    const auto part = [&](const at::Tensor& x) { return x.narrow(dim, piece.begin, piece.size()); };
    multiply_padded(dim == 0 ? part(a) : a, dim == 1 ? part(b) : b, part(result), multiply);
  });
}

}  // namespace

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  check_type(a);
  check_type(b);
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options().requires_grad(false));
  if (a.size(1) == 0) return result.zero_();
  if (result.numel() == 0) return result;
  multiply_in_pieces(
      a.detach(), b.detach(), result,
      [](const at::Tensor& left, const at::Tensor& right, at::Tensor out) { at::mm_out(out, left, right); });
  return result;
}

void add_outer_products(const at::Tensor& sum, const at::Tensor& dy, const at::Tensor& x,
                        std::span<const Range> leaves) {
  check_type(dy);
  check_type(x);
  require(sum.scalar_type() == at::kFloat, "sums of outer products are kept in float32");
  if (sum.numel() == 0) return;
  const at::Tensor left = dy.detach().t(), right = x.detach();
  for (const Range& leaf : leaves) {
    if (leaf.size() == 0) continue;
    const at::Tensor a = left.narrow(1, leaf.begin, leaf.size()), b = right.narrow(0, leaf.begin, leaf.size());
    multiply_in_pieces(a, b, sum.detach(), [](const at::Tensor& some, const at::Tensor& other, at::Tensor out) {
      if (some.scalar_type() == at::kFloat)
        at::addmm_out(out, out, some, other);
      else
        out.add_(at::mm(some, other));
    });
  }
}

}  // namespace adjoin::nn::fixed
