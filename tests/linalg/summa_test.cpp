#include "adjoin/linalg/summa.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/linalg/products.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/pieces.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::linalg {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;

using Width = std::optional<int64_t>;

DistributedTensor summa(Product product, const DistributedTensor& a, const DistributedTensor& b, Width chunk = {}) {
  return (product == Product::nt ? summa_nt : product == Product::nn ? summa_nn : summa_tn)(a, b, chunk);
}

at::Tensor of_wholes(Product product, const at::Tensor& a, const at::Tensor& b) {
  return product == Product::nt ? a.mm(b.t()) : product == Product::nn ? a.mm(b) : a.t().mm(b);
}

/// The shapes of A and B of a product that is m x n and sums over k.
std::pair<std::vector<int64_t>, std::vector<int64_t>> shapes_of(Product product, int64_t m, int64_t n, int64_t k) {
  if (product == Product::nt) return {{m, k}, {n, k}};
  return {product == Product::nn ? std::vector<int64_t>{m, k} : std::vector<int64_t>{k, m}, {k, n}};
}

/// A layout as SUMMA's: rows and columns cut in units of `unit`, so that blocks are uneven and some empty.
Layout cut_both(const GridShape& shape, const std::vector<int64_t>& sizes, int64_t unit = 1) {
  return Layout(shape, sizes,
                {{Split::balanced(sizes[0], shape.axis_size("row"), 0, unit), {"row"}},
                 {Split::balanced(sizes[1], shape.axis_size("column"), 1, unit), {"column"}}});
}

/// Every grid of rows, columns and copies that a world of that size fills.
void for_each_grid(const Communicator& world, const std::function<void(const Grid&)>& visit) {
  for (int rows = 1; rows <= world.size(); ++rows)
    for (int columns = 1; rows * columns <= world.size(); ++columns) {
      if (world.size() % (rows * columns) != 0) continue;
      const Grid grid(world, {{"copy", world.size() / (rows * columns)}, {"row", rows}, {"column", columns}});
      SCOPED_TRACE(grid.shape().to_string());
      visit(grid);
    }
}

void for_each_product(const std::function<void(Product, const std::vector<int64_t>&, const std::vector<int64_t>&)>& f) {
  for (const Product product : {Product::nt, Product::nn, Product::tn}) {
    SCOPED_TRACE(name(product));
    const auto [a, b] = shapes_of(product, 5, 7, 9);
    f(product, a, b);
    const auto [thin_a, thin_b] = shapes_of(product, 1, 2, 3);
    f(product, thin_a, thin_b);
  }
}

TEST(Summa, of_whole_numbers_is_exactly_the_product_of_the_whole_matrices) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_grid(world, [&](const Grid& grid) {
      for_each_product([&](Product product, const std::vector<int64_t>& of_a, const std::vector<int64_t>& of_b) {
        const at::Tensor a = random_tensor(of_a, Kind::replicated, world, 1).mul(2).round();
        const at::Tensor b = random_tensor(of_b, Kind::replicated, world, 2).mul(2).round();
        for (const int64_t unit : {1, 2})
          for (const Width chunk : {Width(), Width(1), Width(2)}) {
            const DistributedTensor c = summa(product, place(a, cut_both(grid.shape(), of_a, unit), grid),
                                              place(b, cut_both(grid.shape(), of_b, unit), grid), chunk);
            EXPECT_TRUE(whole(c).equal(of_wholes(product, a, b))) << "unit " << unit << ", chunk " << chunk.value_or(0);
          }
      });
    });
  });
}

std::vector<at::Tensor> derivatives_of(const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& product,
                                       const std::vector<at::Tensor>& leaves, const at::Tensor& w) {
  const at::Tensor y = product(leaves[0], leaves[1]);
  std::vector<at::Tensor> all = torch::autograd::grad({y}, leaves, {w}, true, true);
  const auto second = torch::autograd::grad({all[0].pow(2).sum() + all[1].pow(3).sum()}, leaves);
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

TEST(Summa, has_the_first_and_second_derivatives_of_one_worker) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_grid(world, [&](const Grid& grid) {
      for_each_product([&](Product product, const std::vector<int64_t>& of_a, const std::vector<int64_t>& of_b) {
        const at::Tensor a = random_tensor(of_a, Kind::replicated, world, 1).requires_grad_();
        const at::Tensor b = random_tensor(of_b, Kind::replicated, world, 2).requires_grad_();
        const Layout layouts[] = {cut_both(grid.shape(), of_a), cut_both(grid.shape(), of_b)};
        const at::Tensor w = random_tensor(of_wholes(product, a, b).sizes(), Kind::replicated, world, 3);
        const auto expected = derivatives_of(
            [&](const at::Tensor& x, const at::Tensor& y) { return of_wholes(product, x, y); }, {a, b}, w);

        const std::vector<at::Tensor> leaves{place(a.detach(), layouts[0], grid).local.clone().requires_grad_(),
                                             place(b.detach(), layouts[1], grid).local.clone().requires_grad_()};
        const auto multiply = [&](const at::Tensor& x, const at::Tensor& y) {
          return summa(product, {x, layouts[0], grid}, {y, layouts[1], grid}, 2);
        };
        const Layout result = multiply(leaves[0], leaves[1]).layout;
        const auto found =
            derivatives_of([&](const at::Tensor& x, const at::Tensor& y) { return multiply(x, y).local; }, leaves,
                           place(w, result, grid).local);
        for (size_t i = 0; i < expected.size(); ++i) {
          const at::Tensor whole_one = whole({found[i].detach(), layouts[i % 2], grid});
          const double scale = expected[i].abs().max().item<double>();
          EXPECT_TRUE(at::allclose(whole_one, expected[i], 0, 1e-12 * scale)) << "derivative " << i;
        }
      });
    });
  });
}

/// Elements that this rank received as part of broadcasts, gave to reductions, or moved in an all-reduce.
struct Volume : Observer {
  void begin(const Call& call) override {
    const int64_t count = call.elements().count;
    if (call.collective == Collective::all_reduce) elements += 2 * (call.size - 1) * count / call.size;
    if ((call.collective == Collective::broadcast || call.collective == Collective::reduce) && call.rank != call.root)
      elements += count;
  }
  int64_t elements = 0;
};

TEST(Summa, moves_the_panels_that_others_hold_once_and_fewer_with_copies) {
  for_each_world({4, 16}, [](const Communicator& world) {
    const int64_t m = 48, n = 96, k = 192;
    for (int rows = 1; rows <= world.size(); ++rows)
      for (int columns = 1; rows * columns <= world.size(); ++columns) {
        if (world.size() % (rows * columns) != 0) continue;
        const int64_t copies = world.size() / (rows * columns);
        const auto volume = std::make_shared<Volume>();
        const Grid grid(world.observed_by(volume),
                        {{"copy", world.size() / (rows * columns)}, {"row", rows}, {"column", columns}});
        for (const Product product : {Product::nt, Product::nn, Product::tn}) {
          const auto [of_a, of_b] = shapes_of(product, m, n, k);
          const Layout la = cut_both(grid.shape(), of_a), lb = cut_both(grid.shape(), of_b);
          volume->elements = 0;
          summa(product, {random_piece_here(la, world, 1), la, grid}, {random_piece_here(lb, world, 2), lb, grid});
          // Of each matrix that goes in panels, what the others of the row or column hold of this worker's lines.
          const int64_t of_rows = m / rows * (product == Product::nt ? n - n / columns : k - k / columns);
          const int64_t of_columns = n / columns * (product == Product::tn ? m - m / rows : k - k / rows);
          const int64_t of_inner = product == Product::nt ? k / columns * (n - n / rows) : k / rows * (m - m / columns);
          const int64_t panels = product == Product::nn   ? of_rows + of_columns
                                 : product == Product::nt ? of_rows + of_inner
                                                          : of_columns + of_inner;
          const int64_t sums = 2 * (copies - 1) * (m / rows) * (n / columns) / copies;
          EXPECT_EQ(volume->elements, panels / copies + sums) << name(product) << " on " << grid.shape().to_string();
        }
      }
  });
}

TEST(Summa, leaves_workers_outside_the_grid_in_peace) {
  for_each_world({3, 4}, [](const Communicator& world) {
    const Grid grid(world, GridShape({{"row", 1}, {"column", 2}}));
    const Layout layout = cut_both(grid.shape(), {4, 4});
    const at::Tensor ones = grid.has_me() ? at::ones({4, 2}, at::kDouble) : at::empty({0}, at::kDouble);
    const DistributedTensor c = summa_nn({ones, layout, grid}, {ones, layout, grid});
    EXPECT_TRUE(c.local.equal(ones * 4));
  });
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return "nothing was refused";
}

TEST(Summa, in_checked_mode_refuses_on_all_workers_what_does_not_fit_together) {
  for_each_checked_world({2}, [](const Communicator& world) {
    const Grid grid(world, {{"row", 1}, {"column", world.size()}});
    const auto tensor = [&](const Layout& layout) {
      return DistributedTensor{at::ones(layout.shape_of(grid.cell())), layout, grid};
    };
    const DistributedTensor a = tensor(cut_both(grid.shape(), {4, 6})), b = tensor(cut_both(grid.shape(), {6, 8}));
    EXPECT_THAT(refusal_of([&] { summa_nn(a, a); }),
                HasSubstr("summa_nn: expected dim 0 of B to be as long as dim 1 of A, 6; A is [4, 6] on "));
    EXPECT_THAT(refusal_of([&] { summa_nn(a, b, 0); }), HasSubstr("expected a chunk of at least 1, got 0"));
    const Layout rows_alone(grid.shape(), {6, 8}, {{Split::balanced(6, 1, 0), {"row"}}});
    EXPECT_THAT(
        refusal_of([&] { summa_nn(a, tensor(rows_alone)); }),
        HasSubstr("expected A and B on the same grid, dim 0 of both cut over one axis, dim 1 of both over another"));
    EXPECT_THAT(refusal_of([&] { summa_nn(a, b, 1 + world.rank()); }), HasSubstr("Float, chunk 2"));
    EXPECT_TRUE(whole(summa_nn(a, b)).equal(at::full({4, 8}, 6.0)));
  });
}

}  // namespace
}  // namespace adjoin::linalg
