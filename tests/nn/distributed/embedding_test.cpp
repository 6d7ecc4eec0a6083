#include "adjoin/nn/distributed/embedding.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

at::Tensor random_ids(Numbers& draw, const std::vector<int64_t>& shape, int64_t words) {
  const at::Tensor ids = at::zeros(shape, at::kLong);
  auto flat = ids.view({-1});
  for (int64_t i = 0; i < flat.numel(); ++i) flat[i] = draw.from(0, words - 1);
  return ids;
}

/// Vectors, the weight's gradient, and the weight after a step of SGD.
void compare_embedding(uint64_t seed, const Communicator& world) {
  const Grid grid(world, {{"all", world.size()}});
  Numbers draw(seed);
  const int64_t words = draw.from(1, 9), features = draw.from(1, 6);
  std::vector<int64_t> shape{draw.from(0, 5)}, made;
  for (int64_t more = draw.from(0, 2); more > 0; --more) shape.push_back(draw.from(1, 4));
  made = shape;
  made.push_back(features);
  EmbeddingOptions options(words, features);
  if (draw.one_in(3)) options.padding_idx(draw.from(-words, words - 1));
  const GridShape shared = random_grid(draw.seed(), world.size());
  const auto some_grid = [&] { return draw.one_in(2) ? shared : random_grid(draw.seed(), world.size()); };
  LayerLayouts placement{.weight = random_layout(draw.seed(), shared, {words, features}, Kind::copied),
                         .tensor = at::kDouble};
  const Layout input = random_layout(draw.seed(), some_grid(), shape, Kind::replicated);
  const Layout output = random_layout(draw.seed(), some_grid(), made, Kind::replicated);
  if (draw.one_in(2)) placement.output = [=](const std::vector<int64_t>&) { return output; };
  SCOPED_TRACE("input " + input.to_string() + "\n  weight " + placement.weight->to_string());

  Embedding layer(options, placement, grid);
  torch::nn::Embedding twin(options);
  twin->to(at::kDouble);
  fill_both(*layer, *twin, world);
  const at::Tensor ids = random_ids(draw, shape, words);
  const DistributedTensor y = layer(laid_out(ids, input, grid));
  const at::Tensor y1 = twin(ids);
  ASSERT_EQ(y.layout.shape(), made);
  expect_close(whole(y).detach(), y1.detach(), "output in " + y.layout.to_string());
  backward_from_both(y, y1);
  parallel::sum_gradients(*layer);
  expect_twin_parameters(*layer, *twin, /*gradients=*/true);
  torch::optim::SGD(layer->parameters(), 0.1).step();
  torch::optim::SGD(twin->parameters(), 0.1).step();
  expect_twin_parameters(*layer, *twin, /*gradients=*/false);
}

TEST(Embedding, equals_one_worker_on_random_layouts) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 60, [&](uint64_t seed) { compare_embedding(seed, world); });
  });
}

TEST(Embedding, refuses_what_does_not_fit_on_every_worker) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    const Layout rows = balanced_over(grid.shape(), {{"rows"}})({4}), square = layout_copied_on(grid.shape(), {5, 5});
    Embedding layer(EmbeddingOptions(5, 3), grid);
    initialize(*layer, 1);
    const auto refusal = [&](const at::Tensor& ids) {
      return thrown_by<InvalidArgument>([&] { layer(laid_out(ids, rows, grid)); });
    };
    EXPECT_EQ(refusal(at::tensor({0, 4, 5, 2}, at::kLong)),
              "Embedding(5, 3): expected ids from 0 to 4; 1 is not; the input is " + rows.to_string());
    EXPECT_EQ(refusal(at::tensor({-1, 4, 5, 2}, at::kLong)),
              "Embedding(5, 3): expected ids from 0 to 4; 2 are not; the input is " + rows.to_string());
    EXPECT_EQ(refusal(at::ones({4})), "Embedding(5, 3): expected ids of int64, got Float");
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { Embedding(EmbeddingOptions(5, 3).padding_idx(5), grid); }),
              "Embedding(5, 3): expected a padding index from -5 to 4, got 5");
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { Embedding(EmbeddingOptions(5, 3).max_norm(1), grid); }),
              "Embedding(5, 3): expected none of max_norm, scale_grad_by_freq, sparse and _weight");
    EXPECT_EQ(
        thrown_by<InvalidArgument>([&] { Embedding(EmbeddingOptions(5, 3), LayerLayouts{.weight = square}, grid); }),
        "Embedding(5, 3): expected a weight of shape [5, 3], got " + square.to_string());
  });
}

}  // namespace
}  // namespace adjoin::nn
