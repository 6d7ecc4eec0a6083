#include "adjoin/nn/distributed/held.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"

namespace adjoin::nn {

at::Tensor indices_held(const Layout& layout, int64_t dim, int cell) {
  const std::vector<Range> ranges = layout.ranges_of(cell)[static_cast<size_t>(dim)];
  std::vector<int64_t> indices;
  for (const Range& range : ranges)
    for (int64_t index = range.begin; index < range.end; ++index) indices.push_back(index);
  return at::tensor(indices, at::kLong);
}

at::Tensor places_held(const Layout& layout, int64_t dim, int rank) {
  const at::Tensor places = at::full({layout.shape()[static_cast<size_t>(dim)]}, -1, at::kLong);
  if (const auto cell = layout.grid().cell_of(rank)) {
    const at::Tensor indices = indices_held(layout, dim, *cell);
    places.index_copy_(0, indices, at::arange(indices.numel(), at::kLong));
  }
  return places;
}

Layout stacked_on(const Layout& layout, int64_t count) {
  std::vector<int64_t> shape = layout.shape();
  shape.insert(shape.begin(), count);
  std::vector<Layout::Cut> cuts;
  for (const auto& [split, axes] : layout.cuts()) cuts.push_back({split.along(split.dim() + 1), axes});
  return Layout(layout.grid(), std::move(shape), std::move(cuts), layout.kinds());
}

Layout features_here(const Layout& x, int64_t first, int64_t count) {
  std::vector<int64_t> others;
  for (int64_t dim = 0; dim < x.dims(); ++dim)
    if (dim < first || dim >= first + count) others.push_back(dim);
  return without_dims(x, others, Kind::copied);
}

at::Tensor broadcast_piece(const at::Tensor& whole, const Layout& layout, int cell) {
  const int64_t before = layout.dims() - whole.dim();
  bool fits = before >= 0;
  for (int64_t dim = 0; fits && dim < whole.dim(); ++dim)
    fits = whole.size(dim) == 1 || whole.size(dim) == layout.shape()[static_cast<size_t>(before + dim)];
  require(fits,
          [&] { return "expected a weight that broadcasts to x, got one of " + shape_text(whole.sizes().vec()); });
  at::Tensor piece = whole;
  for (int64_t dim = 0; dim < whole.dim(); ++dim)
    if (whole.size(dim) > 1)
      piece = piece.index_select(dim, indices_held(layout, before + dim, cell).to(whole.device()));
  return piece;
}

}  // namespace adjoin::nn
