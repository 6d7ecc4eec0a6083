#include "adjoin/nn/fixed/product.hpp"

#include <ATen/Dispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <array>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/movement/on_threads.hpp"

namespace adjoin::nn::fixed {
namespace {

// MKL keeps an element's order of summands from 4 rows and 12 columns on, oneDNN from fewer: measured on AMD with AVX-512, and on Intel with
// it where they were asked (ask_for_one_order). `adjoin doctor --same-bits` tries it. The rows of a text that is generated are few, so there
// each one counts.
constexpr int64_t kLeast = 16, kLeastRows = 4;
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

/// Calls `multiply(a, b, out)` on all threads for pieces of a result, with enough rows and columns: its longer side is cut. `out` begins
/// as the piece is.
template <class Multiply>
void multiply_in_pieces(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, int64_t least_rows,
                        const Multiply& multiply) {
  const int dim = result.size(0) >= result.size(1) ? 0 : 1;
  const int64_t least = least_of(a), depth = a.scalar_type() == at::kFloat ? 0 : kLeast;
  on_one_thread_each(result.size(dim), least, [&](Range piece) {
    const auto part = [&](const at::Tensor& x) { return x.narrow(dim, piece.begin, piece.size()); };
    const at::Tensor of = part(result), out = padded(padded(of, 0, least_rows), 1, least);
    multiply(padded(padded(dim == 0 ? part(a) : a, 0, least_rows), 1, depth),
             padded(padded(dim == 1 ? part(b) : b, 1, least), 0, depth), out);
    if (!out.is_same(of)) of.copy_(out.narrow(0, 0, of.size(0)).narrow(1, 0, of.size(1)));
  });
}

/// In 16 sums that are then added as a tree.
template <class T>
float dot_product(const T* a, const T* b, int64_t length) {
  constexpr int64_t kSums = 16;
  std::array<float, kSums> sums{};
  const auto add = [&](int64_t begin, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      sums[static_cast<size_t>(i)] += static_cast<float>(a[begin + i]) * static_cast<float>(b[begin + i]);
  };
  const int64_t whole = length / kSums * kSums;
  for (int64_t begin = 0; begin < whole; begin += kSums) add(begin, kSums);
  add(whole, length - whole);
  for (size_t half = kSums / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

/// a b into `result`, which is contiguous; quick where the columns of b are.
void multiply_row_by_row(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result) {
  const at::Tensor rows = a.contiguous(), columns = b.stride(0) == 1 ? b.t() : b.t().contiguous();
  const int64_t length = rows.size(1), count = columns.size(0), apart = columns.stride(0);
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, rows.scalar_type(), "multiply_row_by_row", [&] {
    const auto *const of_row = rows.const_data_ptr<scalar_t>(), *const of_column = columns.const_data_ptr<scalar_t>();
    auto* const out = result.mutable_data_ptr<scalar_t>();
    on_one_thread_each(count, kLeast, [&](Range some) {
      for (int64_t column = some.begin; column < some.end; ++column)
        for (int64_t row = 0; row < rows.size(0); ++row)
          out[row * count + column] =
              static_cast<scalar_t>(dot_product(of_row + row * length, of_column + column * apart, length));
    });
  });
}

}  // namespace

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  check_type(a);
  check_type(b);
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options().requires_grad(false));
  if (a.size(1) == 0) return result.zero_();
  if (result.numel() == 0) return result;
  if (const auto order = FixedOrder::current(); order && order->row_by_row) {
    multiply_row_by_row(a.detach(), b.detach(), result);
    return result;
  }
  multiply_in_pieces(
      a.detach(), b.detach(), result, a.scalar_type() == at::kFloat ? kLeastRows : kLeastOf16Bits,
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
    multiply_in_pieces(a, b, sum.detach(), least_of(a),
                       [](const at::Tensor& some, const at::Tensor& other, at::Tensor out) {
                         if (some.scalar_type() == at::kFloat)
                           at::addmm_out(out, out, some, other);
                         else
                           out.add_(at::mm(some, other));
                       });
  }
}

}  // namespace adjoin::nn::fixed
