#include "adjoin/linalg/local.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>

#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::linalg {
namespace {

/// Whether LibTorch multiplies with the matrix as it is stored, without a copy.
bool lies_dense(const at::Tensor& x) {
  return (x.stride(1) == 1 && x.stride(0) >= std::max<int64_t>(1, x.size(1))) ||
         (x.stride(0) == 1 && x.stride(1) >= std::max<int64_t>(1, x.size(0)));
}

void multiply_matrices(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right) {
  if (out.numel() == 0) return;
  const int64_t rows = left.size(0);
  const int64_t step = lies_dense(left) ? rows : std::max<int64_t>(1, out.numel() / std::max<int64_t>(1, left.size(1)));
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    at::Tensor part = out.narrow(0, begin, count);
    at::mm_out(part, left.narrow(0, begin, count), right);
  }
}

}  // namespace

void multiply_into(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right) {
  if (out.dim() == 2) return multiply_matrices(out, left, right);
  for (int64_t i = 0; i < out.size(0); ++i) multiply_into(out.select(0, i), left.select(0, i), right.select(0, i));
}

int64_t automatic_chunk(int64_t bytes) {
  constexpr int64_t kBlockBytes = 32 << 20, kLeast = 64;
  return std::max(kLeast, kBlockBytes / std::max<int64_t>(1, bytes));
}

at::Tensor empty_matrices(const at::Tensor& x, int64_t rows, int64_t columns) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[sizes.size() - 2] = rows;
  sizes[sizes.size() - 1] = columns;
  return at::empty(sizes, x.options().requires_grad(false));
}

void Boxes::add(Message::Kind kind, const at::Tensor& view, int peer) {
  if (view.numel() == 0) return;
  check_plain("a product of matrices", view);
  views_.push_back(view);
  messages_.push_back({.kind = kind,
                       .peer = peer,
                       .buffer = {view.data_ptr(), view.numel(), element_type(view.scalar_type()), buffer_device(view)},
                       .sizes = view.sizes(),
                       .strides = view.strides()});
}

void Boxes::operator()(const Communicator& group) const {
  if (!messages_.empty()) group.exchange(messages_);
}

}  // namespace adjoin::linalg
