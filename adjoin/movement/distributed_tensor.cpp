#include "adjoin/movement/distributed_tensor.hpp"

#include "adjoin/base/error.hpp"
#include "adjoin/movement/move.hpp"

namespace adjoin {
namespace {

void check_exact(const char* operation, const Layout& layout) {
  require(layout.is_exact(), [&] {
    return std::string(operation) + ": expected exact splits, got a covering one in " + layout.to_string();
  });
}

/// Replicated on all workers of the grid.
Layout everywhere(const Layout& layout, const Grid& grid) {
  return Layout(grid.shape(), layout.shape());
}

}  // namespace

DistributedTensor place(const at::Tensor& whole, const Layout& layout, const Grid& grid) {
  check_exact("place", layout);
  return {move(whole, everywhere(layout, grid), layout, grid), layout, grid};
}

DistributedTensor move(const DistributedTensor& x, const Layout& layout) {
  return {move(x.local, x.layout, layout, x.grid), layout, x.grid, x.context};
}

at::Tensor whole(const DistributedTensor& x) {
  check_exact("whole", x.layout);
  // Copies of one value are one value, which the first of them gives; the others stay in the graph, with gradient 0.
  const Layout held = first_copy(x.layout);
  const bool gives = held.grid().cell_of(x.grid.world().rank()).has_value();
  return move(gives ? x.local : x.local.flatten().narrow(0, 0, 0), held, everywhere(x.layout, x.grid), x.grid);
}

DistributedTensor map(const DistributedTensor& x, const std::function<at::Tensor(const at::Tensor&)>& f) {
  require(x.layout.axes(Kind::partial).empty(),
          [&] { return "map: expected no axis to be partial, got " + x.layout.to_string(); });
  const at::Tensor y = f(x.local);
  require(y.sizes() == x.local.sizes(), [&] {
    return "map: expected an elementwise function, which leaves " + shape_text(x.local.sizes().vec()) +
           " as it is; it gave " + shape_text(y.sizes().vec());
  });
  return {y, x.layout, x.grid, x.context};
}

DistributedTensor operator+(const DistributedTensor& a, const DistributedTensor& b) {
  require(a.layout == b.layout, [&] {
    return "operator+: expected equal layouts, got " + a.layout.to_string() + " and " + b.layout.to_string();
  });
  check_exact("operator+", a.layout);
  return {a.local + b.local, a.layout, a.grid, a.context ? a.context : b.context};
}

}  // namespace adjoin
