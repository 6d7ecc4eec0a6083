#include "adjoin/nn/fill.hpp"

#include <ATen/Dispatch.h>

#include <algorithm>
#include <array>

#include "adjoin/movement/on_threads.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::nn {
namespace {

/// Writes the numbers from `first` on into a contiguous run of a tensor's elements.
void fill_run(const at::Tensor& run, int64_t first, const NumbersOf& numbers) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, run.scalar_type(), "fill_piece", [&] {
    auto* out = run.mutable_data_ptr<scalar_t>();
    on_threads(run.numel(), 1 << 16, [&](Range part) {
      std::array<double, 1024> block;
      for (int64_t i = part.begin; i < part.end; i += static_cast<int64_t>(block.size())) {
        const auto n = static_cast<size_t>(std::min<int64_t>(part.end - i, static_cast<int64_t>(block.size())));
        numbers(std::span(block).first(n), first + i);
        for (size_t j = 0; j < n; ++j) out[i + static_cast<int64_t>(j)] = static_cast<scalar_t>(block[j]);
      }
    });
  });
}

}  // namespace

void fill_piece(const at::Tensor& piece, const Layout& layout, int rank, const NumbersOf& numbers) {
  const auto cell = layout.grid().cell_of(rank);
  if (!cell) return;
  const at::Tensor whole = plain("initialize", piece.detach()).cpu().contiguous(), flat = whole.view({-1});
  layout.visit_runs(*cell, [&](int64_t local, int64_t global, int64_t count) {
    fill_run(flat.narrow(0, local, count), global, numbers);
  });
  if (!whole.is_alias_of(piece)) piece.detach().copy_(whole);
}

}  // namespace adjoin::nn
