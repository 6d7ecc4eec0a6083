#include "adjoin/linalg/summa.hpp"

#include <ATen/core/grad_mode.h>

#include <memory>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/linalg/agreement.hpp"
#include "adjoin/linalg/grid_products.hpp"
#include "adjoin/linalg/products.hpp"
#include "adjoin/movement/exchange.hpp"

namespace adjoin::linalg {
namespace {

/// The arguments of one call.
struct GridArguments {
  Product product;
  const DistributedTensor &a, &b;
  std::optional<int64_t> chunk;

  std::string operation() const { return std::string("summa_") + name(product); }
};

/// Whether a matrix is cut as SUMMA requires, over the axes over which `like` is cut.
bool is_cut_as(const Layout& layout, const Layout& like) {
  if (layout.dims() != 2 || like.dims() != 2 || layout.grid() != like.grid() || !layout.is_exact()) return false;
  for (size_t dim = 0; dim < 2; ++dim)
    if (layout.cuts()[dim].axes.size() != 1 || layout.cuts()[dim].axes != like.cuts()[dim].axes) return false;
  return layout.axes(Kind::copied).empty() && layout.axes(Kind::partial).empty();
}

/// Checks what all workers have alike.
void check_layouts(const GridArguments& g) {
  const Layout &a = g.a.layout, &b = g.b.layout;
  const auto both = [&] { return "; A is " + a.to_string() + ", B " + b.to_string(); };
  require(is_cut_as(a, a) && is_cut_as(b, a), [&] {
    return g.operation() +
           ": expected A and B on the same grid, dim 0 of both cut over one axis, dim 1 of both over another, and both "
           "replicated along all other axes" +
           both();
  });
  const int64_t of_a = g.product == Product::tn ? 0 : 1, of_b = g.product == Product::nt ? 1 : 0;
  const auto size = [](const Layout& layout, int64_t dim) { return layout.shape()[static_cast<size_t>(dim)]; };
  require(size(a, of_a) == size(b, of_b), [&] {
    return g.operation() + ": expected dim " + std::to_string(of_b) + " of B to be as long as dim " +
           std::to_string(of_a) + " of A, " + std::to_string(size(a, of_a)) + both();
  });
  // In products where no panels are sent for the summed dim, both factors must be cut alike along it.
  require(g.product == Product::nn || a.split(of_a) == b.split(of_b).along(of_a), [&] {
    return g.operation() + ": expected dim " + std::to_string(of_b) + " of B to be cut like dim " +
           std::to_string(of_a) + " of A" + both();
  });
  require(!g.chunk || *g.chunk >= 1,
          [&] { return g.operation() + ": expected a chunk of at least 1, got " + std::to_string(*g.chunk); });
}

/// Checks what only this worker knows.
void check_pieces(const GridArguments& g) {
  for (const DistributedTensor* x : {&g.a, &g.b}) {
    check_piece(g.operation().c_str(), x->local, x->layout, x->grid.world().rank());
    require(at::isFloatingType(x->local.scalar_type()) && x->local.scalar_type() == g.a.local.scalar_type(),
            [&] { return g.operation() + ": expected pieces of one floating-point type"; });
  }
}

/// What must be the same on all workers.
std::string description(const GridArguments& g) {
  const auto needs = [](const DistributedTensor& x) {
    return at::GradMode::is_enabled() && x.local.requires_grad() ? " with a gradient" : " without a gradient";
  };
  return std::string(c10::toString(g.a.local.scalar_type())) + ", chunk " +
         (g.chunk ? std::to_string(*g.chunk) : "auto") + ", A" + needs(g.a) + ": " + g.a.layout.to_string() + ", B" +
         needs(g.b) + ": " + g.b.layout.to_string();
}

/// One dim of the result: cut as that of a factor, or evenly.
Layout::Cut cut_as(const Layout& layout, int64_t of, int64_t dim) {
  const Layout::Cut& cut = layout.cuts()[static_cast<size_t>(of)];
  return {cut.split.along(dim), cut.axes};
}
Layout::Cut cut_evenly(const Layout& layout, int64_t of, const Layout::Cut& over) {
  return {Split::balanced(layout.shape()[static_cast<size_t>(of)], over.split.parts(), over.split.dim()), over.axes};
}

Layout result_layout(Product product, const Layout& a, const Layout& b) {
  const Layout::Cut rows = product == Product::tn ? cut_evenly(a, 1, a.cuts()[0]) : cut_as(a, 0, 0);
  const Layout::Cut columns = product == Product::nt ? cut_evenly(b, 0, b.cuts()[1]) : cut_as(b, 1, 1);
  return Layout(a.grid(), {rows.split.size(), columns.split.size()}, {rows, columns});
}

DistributedTensor multiply_on_grid(const GridArguments& g) {
  check_layouts(g);
  check_pieces(g);
  const GridShape& workers = g.a.layout.grid();
  const Communicator& world = g.a.grid.world();
  if (world.checked() && workers.cell_of(world.rank()))
    check_agreement(g.operation().c_str(), description(g), g.a.grid.group_of(workers.ranks()));
  const Layout result = result_layout(g.product, g.a.layout, g.b.layout);
  // The three matrices of the form tr(C^T A B); the products are its derivatives.
  const Layout& a = g.product == Product::nt ? result : g.a.layout;
  const Layout& b = g.product == Product::tn ? result : g.b.layout;
  const Layout& c = g.product == Product::nn ? result : g.product == Product::nt ? g.a.layout : g.b.layout;
  const auto engine = std::make_shared<GridProducts>(g.a.layout, g.a.grid, g.chunk);
  using Tensor = const at::Tensor&;
  const Products products{.nt =
                              [=](Tensor x, Tensor y) {
                                return engine->nt({x, c}, {y, b}, a);
                              },
                          .nn =
                              [=](Tensor x, Tensor y) {
                                return engine->nn({x, a}, {y, b});
                              },
                          .tn =
                              [=](Tensor x, Tensor y) {
                                return engine->tn({x, a}, {y, c}, b);
                              }};
  return {multiply(g.product, products, g.a.local, g.b.local), result, g.a.grid, g.a.step};
}

}  // namespace

DistributedTensor summa_nn(const DistributedTensor& a, const DistributedTensor& b, std::optional<int64_t> chunk) {
  return multiply_on_grid({Product::nn, a, b, chunk});
}

DistributedTensor summa_nt(const DistributedTensor& a, const DistributedTensor& b, std::optional<int64_t> chunk) {
  return multiply_on_grid({Product::nt, a, b, chunk});
}

DistributedTensor summa_tn(const DistributedTensor& a, const DistributedTensor& b, std::optional<int64_t> chunk) {
  return multiply_on_grid({Product::tn, a, b, chunk});
}

}  // namespace adjoin::linalg
