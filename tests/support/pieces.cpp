#include "tests/support/pieces.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <array>

namespace adjoin::testing {
namespace {

/// The cell of the same coordinates but 0 on the replicated axes.
int first_replica(const Layout& layout, int cell) {
  std::vector<int> coordinates = layout.grid().coordinates(cell);
  for (const std::string& axis : layout.axes(Kind::replicated))
    coordinates[static_cast<size_t>(layout.grid().axis_index(axis))] = 0;
  return layout.grid().cell_at(coordinates);
}

/// The index of each dim of a piece, shaped so that they broadcast against each other.
c10::List<std::optional<at::Tensor>> indices_of(const Layout& layout, int cell) {
  c10::List<std::optional<at::Tensor>> indices;
  const auto ranges = layout.ranges_of(cell);
  for (size_t dim = 0; dim < ranges.size(); ++dim) {
    std::vector<int64_t> index, shape(ranges.size(), 1);
    for (const Range& range : ranges[dim])
      for (int64_t i = range.begin; i < range.end; ++i) index.push_back(i);
    shape[dim] = static_cast<int64_t>(index.size());
    indices.push_back(at::tensor(index, at::kLong).view(shape));
  }
  return indices;
}

}  // namespace

at::Tensor random_piece(const Layout& layout, int cell, int64_t seed) {
  auto generator =
      at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(1000 * seed + first_replica(layout, cell)));
  return at::randn(layout.shape_of(cell), generator, at::TensorOptions().dtype(at::kDouble));
}

at::Tensor random_piece_here(const Layout& layout, const Communicator& world, int64_t seed) {
  const auto cell = layout.grid().cell_of(world.rank());
  return cell ? random_piece(layout, *cell, seed) : at::empty({0}, at::kDouble);
}

at::Tensor piece_of(const at::Tensor& global, const Layout& layout, int cell) {
  return layout.dims() == 0 ? global : global.index(indices_of(layout, cell));
}

void add_piece(const at::Tensor& global, const Layout& layout, int cell, const at::Tensor& piece) {
  if (layout.dims() == 0)
    global.add_(piece);
  else
    global.index_put_(indices_of(layout, cell), piece, /*accumulate=*/true);
}

double inner_product(const at::Tensor& a, const at::Tensor& b, const Layout& layout, const Communicator& world) {
  const auto cell = layout.grid().cell_of(world.rank());
  const bool counts = cell && first_replica(layout, *cell) == *cell;
  std::array<double, 1> sum{counts ? (a.detach() * b.detach()).sum().item<double>() : 0.0};
  world.all_reduce(buffer(sum));
  return sum[0];
}

}  // namespace adjoin::testing
