#include "adjoin/movement/distributed_tensor.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/move.hpp"

namespace adjoin {
namespace {

void check_exact(const char* operation, const Layout& layout) {
  require(layout.is_exact(), [&] {
    return std::string(operation) + ": expected exact splits, got a covering one in " + layout.to_string();
  });
}

/// The layout that is replicated on all workers of the grid.
Layout everywhere(const Layout& layout, const Grid& grid) {
  return Layout(grid.shape(), layout.shape());
}

/// The same layout for a tensor with another size along a dim that is whole.
Layout with_size(const Layout& layout, size_t dim, int64_t size) {
  std::vector<int64_t> shape = layout.shape();
  shape[dim] = size;
  std::vector<Layout::Cut> cuts;
  for (const Layout::Cut& cut : layout.cuts())
    if (!cut.axes.empty()) cuts.push_back(cut);
  return Layout(layout.grid(), std::move(shape), std::move(cuts), layout.kinds());
}

}  // namespace

DistributedTensor place(const at::Tensor& whole, const Layout& layout, const Grid& grid) {
  check_exact("place", layout);
  return {move(whole, everywhere(layout, grid), layout, grid), layout, grid};
}

DistributedTensor move(const DistributedTensor& x, const Layout& layout) {
  return {move(x.local, x.layout, layout, x.grid), layout, x.grid, x.step};
}

at::Tensor whole(const DistributedTensor& x) {
  check_exact("whole", x.layout);
  // Copies of one value count as one value, which the first copy provides; the others stay in the graph, with gradient
  // 0.
  const Layout held = first_copy(x.layout);
  const bool gives = held.grid().cell_of(x.grid.world().rank()).has_value();
  return move(gives ? x.local : x.local.flatten().narrow(0, 0, 0), held, everywhere(x.layout, x.grid), x.grid);
}

DistributedTensor map(const DistributedTensor& x, const std::function<at::Tensor(const at::Tensor&)>& f) {
  require(x.layout.axes(Kind::partial).empty(),
          [&] { return "map: expected no axis to be partial, got " + x.layout.to_string(); });
  const at::Tensor y = f(x.local);
  require(y.sizes() == x.local.sizes(), [&] {
    return "map: expected an elementwise function, which keeps the shape " + shape_text(x.local.sizes().vec()) +
           ", got a result of shape " + shape_text(y.sizes().vec());
  });
  return {y, x.layout, x.grid, x.step};
}

DistributedTensor operator+(const DistributedTensor& a, const DistributedTensor& b) {
  require(a.layout == b.layout, [&] {
    return "operator+: expected equal layouts, got " + a.layout.to_string() + " and " + b.layout.to_string();
  });
  check_exact("operator+", a.layout);
  return {a.local + b.local, a.layout, a.grid, a.step ? a.step : b.step};
}

DistributedTensor cat(const DistributedTensor& a, const DistributedTensor& b, int64_t dim) {
  const auto d = static_cast<size_t>(dim);
  const auto is_whole = [&](const Layout& layout) {
    return dim >= 0 && dim < layout.dims() && layout.cuts()[d].axes.empty();
  };
  const auto fits = [&] {
    if (!is_whole(a.layout) || !is_whole(b.layout)) return false;
    return with_size(a.layout, d, 1) == with_size(b.layout, d, 1);
  };
  require(fits(), [&] {
    return "cat: expected layouts that do not cut dim " + std::to_string(dim) +
           " and differ at most in its size, got " + a.layout.to_string() + " and " + b.layout.to_string();
  });
  const Layout layout = with_size(a.layout, d, a.layout.shape()[d] + b.layout.shape()[d]);
  const bool is_here = layout.grid().cell_of(a.grid.world().rank()).has_value();
  return {at::cat({a.local, b.local}, is_here ? dim : 0), layout, a.grid, a.step ? a.step : b.step};
}

}  // namespace adjoin
