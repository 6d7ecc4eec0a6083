#include "tests/support/window_layers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "adjoin/comm/launch.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/scale.hpp"

namespace adjoin::testing {
namespace {

/// A weight whose first two dims are cut as those of a layout of them alone.
Layout with_kernel(const Layout& features, const std::vector<int64_t>& shape) {
  std::vector<Layout::Cut> cuts;
  for (const Layout::Cut& cut : features.cuts())
    if (!cut.axes.empty()) cuts.push_back(cut);
  return Layout(features.grid(), shape, std::move(cuts), features.kinds());
}

/// Each axis of one grid cuts rows or features.
WindowLayouts on_one_grid(Numbers& draw, const std::vector<int64_t>& input, size_t channel_dim,
                          const std::vector<int64_t>& weight, int workers) {
  const GridShape grid = random_grid(draw.seed(), workers);
  std::vector<std::vector<std::string>> axes_of_input(input.size()), axes_of_weight(2);
  std::map<std::string, Kind> kinds;
  for (const auto& axis : grid.axes()) {
    const auto dim = static_cast<size_t>(draw.from(0, static_cast<int64_t>(input.size()) - 1));
    axes_of_input[dim].push_back(axis.name);
    if (dim != channel_dim)
      kinds[axis.name] = Kind::copied;
    else
      axes_of_weight[static_cast<size_t>(draw.from(0, 1))].push_back(axis.name);
  }
  const auto cuts = [&](const std::vector<std::vector<std::string>>& axes, const std::vector<int64_t>& shape) {
    std::vector<Layout::Cut> result;
    for (size_t dim = 0; dim < axes.size(); ++dim) {
      int parts = 1;
      for (const std::string& axis : axes[dim]) parts *= grid.axis_size(axis);
      const auto d = static_cast<int64_t>(dim);
      if (axes[dim].empty()) continue;
      result.push_back(
          {draw.one_in(3) ? random_split(draw.seed(), shape[dim], parts, d) : Split::balanced(shape[dim], parts, d),
           axes[dim]});
    }
    return result;
  };
  return {Layout(grid, input, cuts(axes_of_input, input)), Layout(grid, weight, cuts(axes_of_weight, weight), kinds)};
}

}  // namespace

std::string WindowCase::to_string() const {
  return "input " + shape_text(input) + " kernel " + shape_text(kernel) + " stride " + shape_text(stride) +
         " dilation " + shape_text(dilation) + " padding " + shape_text(padding);
}

WindowCase random_window_case(Numbers& draw, size_t dims, bool half_padding) {
  WindowCase drawn;
  drawn.dims = dims;
  drawn.channels = draw.from(1, 6);
  if (!draw.one_in(5)) drawn.input.push_back(draw.from(1, 3));
  drawn.input.push_back(drawn.channels);
  for (size_t d = 0; d < dims; ++d) {
    const int64_t size = draw.from(3, dims == 3 ? 6 : 10);
    const int64_t dilation = draw.from(1, 2);
    const int64_t kernel = draw.from(1, std::min<int64_t>(4, (size - 1) / dilation + 1));
    drawn.input.push_back(size);
    drawn.kernel.push_back(kernel);
    drawn.dilation.push_back(dilation);
    drawn.stride.push_back(draw.from(1, 3));
    drawn.padding.push_back(draw.from(0, half_padding ? kernel / 2 : 2));
  }
  return drawn;
}

WindowLayouts random_window_layouts(Numbers& draw, const std::vector<int64_t>& input, size_t channel_dim,
                                    const std::vector<int64_t>& weight, int workers) {
  if (!draw.one_in(3)) return on_one_grid(draw, input, channel_dim, weight, workers);
  const GridShape grid = random_grid(draw.seed(), workers);
  const GridShape other = draw.one_in(2) ? grid : random_grid(draw.seed(), workers);
  return {random_layout(draw.seed(), other, input, Kind::partial),
          with_kernel(random_layout(draw.seed(), grid, {weight[0], weight[1]}, Kind::copied), weight)};
}

EndLayouts random_end_layouts(Numbers& draw, const std::vector<int64_t>& input, int workers) {
  const Layout lies = random_window_layouts(draw, input, 0, {1, 1}, workers).input;
  const uint64_t seed = draw.seed();
  const GridShape other = draw.one_in(2) ? lies.grid() : random_grid(draw.seed(), workers);
  if (draw.one_in(2)) return {lies, {}};
  return {lies, [=](const std::vector<int64_t>& shape) { return random_layout(seed, other, shape, Kind::copied); }};
}

void for_each_seed(const Communicator& world, int trials, const std::function<void(uint64_t seed)>& fn) {
  if (started_by_mpi() || kIsSanitized) trials = std::max(1, trials / 10);
  trials *= static_cast<int>(test::scale());
  for (int trial = 0; trial < trials && !::testing::Test::HasFailure(); ++trial) {
    const uint64_t seed = static_cast<uint64_t>(10000 * world.size() + trial);
    SCOPED_TRACE("seed " + std::to_string(seed));
    fn(seed);
  }
}

}  // namespace adjoin::testing
