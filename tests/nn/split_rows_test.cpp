#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/dropout.hpp"
#include "adjoin/nn/embedding.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/norm.hpp"
#include "adjoin/nn/sequence/self_attention.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

/// Of three samples, with rows that no number of ranks divides.
ForwardPass pass_of_all_rows() {
  return {{.seed = 5, .number = 3, .training = true, .first_sample = 2},
          LocalTokenRows(TokenRows::balanced({5, 1, 7}, 1))};
}
constexpr int64_t kRows = 13;

/// Compares a layer on rows that are split over `world` with the same on one worker, in float64: output, gradient of the input,
/// and of the parameters after their sum over copies. `make(grid, split_rows)` gives the layer; `run(layer, x, all, here)` applies
/// it, with the passes of all rows and of those that x has.
template <class Make, class Run>
void expect_same_on_split_rows(const Communicator& world, const at::Tensor& input, Make make, Run run) {
  auto parallel = make(on_tp(world), true), single = make(one_worker(), false);
  initialize(*parallel, 11);
  initialize(*single, 11);
  const Split rows = Split::balanced(kRows, world.size(), 0);
  const bool is_ids = !at::isFloatingType(input.scalar_type());
  const at::Tensor mine = is_ids ? input : take_block(input, rows, world.rank()).clone().requires_grad_(true);
  const at::Tensor all = is_ids ? input : input.clone().requires_grad_(true);
  const ForwardPass pass = pass_of_all_rows(), here{pass.step, rows_of_rank(pass.rows, world)};
  const at::Tensor y = run(parallel, mine, pass, here);
  const at::Tensor y1 = run(single, all, pass, pass);
  expect_close(y.detach(), take_block(y1.detach(), rows, world.rank()), "output");
  const at::Tensor weights = random_tensor(y1.sizes(), Kind::replicated, world, 7);
  (y * take_block(weights, rows, world.rank())).sum().backward();
  (y1 * weights).sum().backward();
  if (!is_ids) expect_close(mine.grad(), take_block(all.grad(), rows, world.rank()), "gradient of the input");
  parallel::sum_gradients(*parallel);
  expect_same_tensors(global_tensors(*parallel, true), global_tensors(*single, true), "gradients");
}

TEST(SplitRows, of_col_row_are_the_layer_of_one_worker) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const bool bias : {false, true})
      for (const double dropout : {0.0, 0.4})
        expect_same_on_split_rows(
            world, random_tensor({kRows, 6}, Kind::replicated, world),
            [&](const Grid& grid, bool split) {
              return ColRow(ColRowOptions{.in_features = 6,
                                          .hidden_features = 10,
                                          .out_features = 5,
                                          .bias = bias,
                                          .split_rows = split,
                                          .dropout = dropout,
                                          .name = "pair",
                                          .tensor = at::kDouble},
                            grid, "tp");
            },
            [](ColRow& layer, const at::Tensor& x, const ForwardPass& pass, const ForwardPass&) {
              return layer(x, pass);
            });
  });
}

TEST(SplitRows, of_attention_are_the_layer_of_one_worker) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const bool bias : {false, true})
      expect_same_on_split_rows(
          world, random_tensor({kRows, 12}, Kind::replicated, world),
          [&](const Grid& grid, bool split) {
            return ParallelSelfAttention(SelfAttentionOptions{.hidden = 12,
                                                              .heads = 6,
                                                              .key_heads = 3,
                                                              .qkv_bias = bias,
                                                              .out_bias = bias,
                                                              .causal = true,
                                                              .rotary = RotaryOptions{.base = 100},
                                                              .dropout = 0.2,
                                                              .split_rows = split,
                                                              .name = "attention",
                                                              .tensor = at::kDouble},
                                         grid, "tp");
          },
          [](ParallelSelfAttention& layer, const at::Tensor& x, const ForwardPass& pass, const ForwardPass&) {
            return layer(x, pass);
          });
  });
}

TEST(SplitRows, of_norm_and_dropout_are_those_of_one_worker) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    expect_same_on_split_rows(
        world, random_tensor({kRows, 6}, Kind::replicated, world),
        [&](const Grid& grid, bool split) {
          return ReplicatedNorm(NormOptions{.features = 6, .split_rows = split, .tensor = at::kDouble}, grid, "tp");
        },
        [](ReplicatedNorm& layer, const at::Tensor& x, const ForwardPass&, const ForwardPass& here) {
          return add_dropped(x, layer(x), 0.3, {"after", 0}, here);
        });
  });
}

TEST(SplitRows, of_an_embedding_are_those_of_one_worker) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const at::Tensor ids = at::arange(kRows) * 5 % 7;
    for (const auto cut : {ParallelEmbeddingOptions::Cut::hidden, ParallelEmbeddingOptions::Cut::vocabulary})
      expect_same_on_split_rows(
          world, ids,
          [&](const Grid& grid, bool split) {
            return ParallelEmbedding(
                ParallelEmbeddingOptions{
                    .words = 7, .features = 6, .cut = cut, .split_rows = split, .deviation = 1, .tensor = at::kDouble},
                grid, "tp");
          },
          [](ParallelEmbedding& layer, const at::Tensor& x, const ForwardPass&, const ForwardPass&) {
            return layer(x);
          });
  });
}

TEST(LinearProduct, of_split_rows_keeps_its_own_rows_and_the_weight_alone) {
  for_each_world({2}, [](const Communicator& world) {
    if (world.size() != 2) return;
    const Split rows = Split::balanced(kRows, 2, 0);
    const at::Tensor x = random_tensor({rows.size(world.rank()), 4}, Kind::split, world).requires_grad_(true);
    const at::Tensor weight = random_tensor({3, 4}, Kind::split, world, 1).requires_grad_(true);
    const at::Tensor y = linear_product(x, weight, {}, SplitRows{world, rows});
    EXPECT_EQ(y.sizes(), (at::IntArrayRef{kRows, 3}));
    // Both are still used by autograd's node, and nothing of the size of all rows: x's memory is shared, not copied.
    EXPECT_GT(x.use_count(), 1);
    EXPECT_GT(weight.use_count(), 1);
    y.sum().backward();
    EXPECT_EQ(weight.grad().sizes(), weight.sizes());
  });
}

TEST(LinearProduct, of_split_rows_moves_and_multiplies_16_bit_numbers_under_autocast) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Split rows = Split::balanced(kRows, world.size(), 0);
    const auto floats = [&](at::IntArrayRef shape, int64_t seed) {
      return random_tensor(shape, Kind::replicated, world, seed).to(at::kFloat);
    };
    const at::Tensor all = floats({kRows, 4}, 0), weight = floats({3, 4}, 1).requires_grad_(true);
    const at::Tensor x = take_block(all, rows, world.rank()).clone().requires_grad_(true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(false);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor y = linear_product(x, weight, {}, SplitRows{world, rows});
    at::autocast::set_autocast_enabled(at::kCPU, false);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::allclose(y.to(at::kFloat), all.mm(weight.detach().t()), 0.02, 0.05));
    y.to(at::kFloat).sum().backward();
    EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
    EXPECT_TRUE(at::allclose(weight.grad(), all.sum(0).expand({3, 4}), 0.02, 0.05));
    EXPECT_TRUE(at::allclose(x.grad(), world.size() * weight.detach().sum(0).expand_as(x), 0.02, 0.05));
  });
}

TEST(LinearProduct, of_split_rows_tells_a_rank_with_other_rows) {
  const at::Tensor x = at::ones({3, 4}), weight = at::ones({2, 4});
  EXPECT_THROW(linear_product(x, weight, {}, SplitRows{Communicator(), Split::balanced(4, 1, 0)}), InvalidArgument);
}

}  // namespace
}  // namespace adjoin::nn
