#include "adjoin/nn/distributed/linear.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

Grid everyone(const Communicator& world) {
  return Grid(world, {{"all", world.size()}});
}

/// The features in balanced parts, on ranks first, first + 1, …
LayoutRule features_on(int parts, int first) {
  std::vector<int> ranks;
  for (int part = 0; part < parts; ++part) ranks.push_back(first + part);
  const GridShape grid({{"features", parts}}, ranks);
  return [grid](const std::vector<int64_t>& shape) { return balanced_over(grid, {{}, {"features"}})(shape); };
}

Layout cut_weight(int64_t out, int64_t in, int out_parts, int in_parts) {
  const GridShape grid({{"out", out_parts}, {"in", in_parts}});
  return balanced_over(grid, {{"out"}, {"in"}})({out, in});
}

void expect_linear(const LinearOptions& options, const LayerLayouts& placement, const at::Tensor& x,
                   const Layout& layout, const Communicator& world) {
  const Grid grid = everyone(world);
  LayerLayouts in_float64 = placement;
  in_float64.tensor = at::kDouble;
  torch::nn::Linear twin(options);
  expect_same_as_twin(Linear(options, in_float64, grid), twin, x, layout, grid);
}

TEST(Linear, has_input_weight_and_output_on_grids_that_overlap_in_part) {
  for_each_world({4}, [](const Communicator& world) {
    if (world.size() < 4) return;
    const at::Tensor x = random_tensor({5, 10}, Kind::replicated, world);
    expect_linear(LinearOptions(10, 6), {cut_weight(6, 10, 2, 2), features_on(2, 2)}, x, features_on(3, 0)({5, 10}),
                  world);
  });
}

TEST(Linear, has_its_weight_on_twelve_workers_and_the_rest_on_others) {
  for_each_world({12}, [](const Communicator& world) {
    if (world.size() < 12) return;
    const at::Tensor x = random_tensor({3, 12}, Kind::replicated, world);
    expect_linear(LinearOptions(12, 6), {cut_weight(6, 12, 3, 4), features_on(3, 0)}, x, features_on(4, 4)({3, 12}),
                  world);
  });
}

/// Queries, keys and values of heads: with two of the eight heads, a rank has theirs of all three.
Split fused_heads(int parts) {
  std::vector<std::vector<Range>> ranges;
  for (int part = 0; part < parts; ++part) {
    const Range heads = Split::balanced(8, parts, 0).ranges(part)[0];
    ranges.emplace_back();
    for (const int64_t base : {0, 16, 20})  // eight heads of queries, two groups of keys and of values, of two features
      ranges.back().push_back(base == 0 ? Range{2 * heads.begin, 2 * heads.end}
                                        : Range{base + heads.begin / 2, base + heads.end / 2});
  }
  return Split::of_ranges(std::move(ranges), 24, 0);
}

TEST(Linear, is_every_form_of_tensor_parallelism) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const GridShape shape({{"tp", world.size()}});
    const auto lies = [&](std::vector<std::vector<std::string>> axes) { return balanced_over(shape, std::move(axes)); };
    const at::Tensor x = random_tensor({2, 7, 10}, Kind::replicated, world);
    const LinearOptions options(10, 24);
    const std::vector<int64_t> in{2, 7, 10}, weight{24, 10};
    const Layout by_out = lies({{"tp"}})(weight), by_in = lies({{}, {"tp"}})(weight);
    const Layout replicated = lies({})(in), by_features = lies({{}, {}, {"tp"}})(in),
                 by_tokens = lies({{}, {"tp"}})(in);
    for (const Layout& layout : {replicated, by_features, by_tokens}) {
      expect_linear(options, {by_out}, x, layout, world);                           // column, all-gather
      expect_linear(options, {by_in}, x, layout, world);                            // row
      expect_linear(options, {by_in, lies({{}, {}, {"tp"}})}, x, layout, world);    // reduce-scatter
      expect_linear(options, {by_in, lies({{}, {"tp"}})}, x, layout, world);        // the same for sequences
      expect_linear(options, {layout_copied_on(shape, weight)}, x, layout, world);  // data-parallel
      if (world.size() != 3)                                                        // fused, grouped-query heads
        expect_linear(options, {Layout(shape, weight, {{fused_heads(world.size()), {"tp"}}})}, x, layout, world);
    }
  });
}

TEST(Linear, moves_nothing_forward_where_its_layouts_fit) {
  for_each_world({4}, [](const Communicator& world) {
    if (world.size() != 4 || world.checked()) return;  // checks are calls too
    const auto count = std::make_shared<CallCount>();
    const Grid grid(world.observed_by(count), {{"dp", 2}, {"tp", 2}});
    const Layout weight(grid.shape(), {6, 4}, {{Split::balanced(6, 2, 0), {"tp"}}}, {{"dp", Kind::copied}});
    Linear column(LinearOptions(4, 6), LayerLayouts{.weight = weight}, grid);
    initialize(*column, 1);
    const Layout rows = balanced_over(grid.shape(), {{"dp"}})({5, 4});
    const DistributedTensor x = laid_out(at::ones({5, 4}), rows, grid);
    for (int step = 0; step < 2; ++step) {
      const DistributedTensor y = column(x);
      EXPECT_EQ(y.layout, balanced_over(grid.shape(), {{"dp"}, {"tp"}})({5, 6}));
    }
    EXPECT_EQ(count->calls, 0);
  });
}

TEST(Linear, equals_one_worker_on_random_layouts) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    const int trials = started_by_mpi() ? 20 : 100;
    for (int trial = 0; trial < trials; ++trial) {
      const uint64_t seed = static_cast<uint64_t>(1000 * world.size() + 10 * trial);
      const int64_t in = 1 + trial % 7, out = 1 + trial % 5;
      const std::vector<int64_t> shape =
          trial % 3 == 0 ? std::vector<int64_t>{2 + trial % 4, 3, in} : std::vector<int64_t>{trial % 6, in};
      std::vector<int64_t> made = shape;
      made.back() = out;
      const GridShape grid = random_grid(seed, world.size());
      const auto other_grid = [&](uint64_t i) {
        return (trial + static_cast<int>(i)) % 2 ? grid : random_grid(seed + i, world.size());
      };
      const Layout weight = random_layout(seed + 1, grid, {out, in}, Kind::copied);
      const Layout input = random_layout(seed + 2, other_grid(3), shape, Kind::partial);
      const Layout output = random_layout(seed + 4, other_grid(5), made, Kind::replicated);
      SCOPED_TRACE("trial " + std::to_string(trial) + "\n  input " + input.to_string() + "\n  weight " +
                   weight.to_string() + "\n  output " + output.to_string());
      const at::Tensor x = random_tensor(shape, Kind::replicated, world, trial);
      const LayoutRule rule = [output](const std::vector<int64_t>&) { return output; };
      expect_linear(LinearOptions(in, out).bias(trial % 4 != 0), {weight, trial % 5 == 0 ? LayoutRule() : rule}, x,
                    input, world);
      if (::testing::Test::HasFailure()) return;
    }
  });
}

TEST(Linear, refuses_what_does_not_fit_on_every_worker) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid = everyone(world);
    Linear layer(LinearOptions(4, 6), grid);
    const Layout narrow = balanced_over(grid.shape(), {{"all"}})({5, 3}), one = balanced_over(grid.shape(), {})({4});
    EXPECT_EQ(thrown_by<InvalidArgument>([&] {
                layer(laid_out(at::ones({5, 3}), narrow, grid));
              }),
              "Linear(4, 6): expected 4 features in the last dim; the input is " + narrow.to_string());
    if (world.size() == 2) {
      EXPECT_EQ(
          thrown_by<InvalidArgument>([&] { layer(laid_out(at::ones({4}), one, grid)); }),
          "Linear(4, 6): expected an input with a dim to cut over the axes along which the weight is copied (all); the "
          "input is " +
              one.to_string());
    }
    const Layout square = balanced_over(grid.shape(), {})({4, 4});
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { Linear(LinearOptions(4, 6), LayerLayouts{.weight = square}, grid); }),
              "Linear(4, 6): expected a weight of shape [6, 4], got " + square.to_string());
  });
}

}  // namespace
}  // namespace adjoin::nn
