#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/normalization.h>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/embedding.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/norm.hpp"
#include "adjoin/nn/positions.hpp"
#include "adjoin/nn/sequence/self_attention.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/hosts_backend.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;
using Cut = ParallelLinearOptions::Cut;

const ForwardPass kLayersPass{{.seed = 5, .number = 3, .training = true, .first_sample = 2}};

ForwardPass with_rows(const ForwardPass& pass, const std::vector<int64_t>& lengths) {
  return {pass.step, LocalTokenRows(TokenRows::balanced(lengths, 1))};
}

ParallelLinearOptions linear(ParallelLinearOptions::Cut cut, bool bias) {
  return {.in_features = 7, .out_features = 10, .cut = cut, .bias = bias, .tensor = at::kDouble};
}

TEST(ParallelLinear, cut_by_outputs_or_not_is_the_layer_of_one_worker_once_gathered) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const Cut cut : {Cut::none, Cut::outputs})
      for (const bool bias : {false, true})
        expect_same_as_one_worker(
            world, {3, 7}, [&](const Grid& grid) { return ParallelLinear(linear(cut, bias), grid, "tp"); },
            [&](ParallelLinear& layer, const at::Tensor& x) {
              const at::Tensor y = layer(x);
              const bool is_split = cut == Cut::outputs && layer->split().parts() > 1;
              return is_split ? gather_from(y, world, layer->split().along(1)) : y;
            });
  });
}

TEST(ParallelLinear, cut_by_outputs_keeps_each_ranks_features) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    ParallelLinear split(linear(Cut::outputs, true), on_tp(world), "tp"),
        whole(linear(Cut::outputs, true), one_worker(), "tp");
    initialize(*split, 1);
    initialize(*whole, 1);
    const at::Tensor x = random_tensor({2, 7}, Kind::replicated, world);
    const Range mine = split->split().ranges(world.rank())[0];
    EXPECT_TRUE(at::allclose(split(x), whole(x).narrow(1, mine.begin, mine.size()), 1e-13, 1e-13));
  });
}

TEST(ColRow, is_the_pair_of_one_worker_with_and_without_bias_and_dropout) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const bool bias : {false, true})
      for (const double dropout : {0.0, 0.4})
        expect_same_as_one_worker(
            world, {12, 7},
            [&](const Grid& grid) {
              return ColRow(ColRowOptions{.in_features = 7,
                                          .hidden_features = 10,
                                          .out_features = 5,
                                          .bias = bias,
                                          .dropout = dropout,
                                          .name = "pair",
                                          .tensor = at::kDouble},
                            grid, "tp");
            },
            [](ColRow& layer, const at::Tensor& x) { return layer(x, kLayersPass); });
  });
}

ColRowOptions swiglu(double dropout) {
  return {.in_features = 7,
          .hidden_features = 10,
          .out_features = 5,
          .activation = Activation::swiglu,
          .dropout = dropout,
          .name = "pair",
          .tensor = at::kDouble};
}

TEST(ColRow, with_swiglu_is_the_pair_of_one_worker_and_its_formula) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const double dropout : {0.0, 0.4})
      expect_same_as_one_worker(
          world, {12, 7}, [&](const Grid& grid) { return ColRow(swiglu(dropout), grid, "tp"); },
          [](ColRow& layer, const at::Tensor& x) { return layer(x, kLayersPass); });
  });
  ColRow pair(swiglu(0), one_worker(), "tp");
  initialize(*pair, 1);
  const auto p = pair->named_parameters();
  const at::Tensor x = random_tensor({3, 7}, Kind::replicated, Communicator());
  const at::Tensor made = at::linear(x, p["column.weight"], p["column.bias"]);
  const at::Tensor expected =
      at::linear(at::silu(made.narrow(1, 0, 10)) * made.narrow(1, 10, 10), p["row.weight"], p["row.bias"]);
  EXPECT_TRUE(at::allclose(pair(x, ForwardPass()), expected, 1e-12, 1e-12));
}

/// Counts the all-reduces of one rank.
struct CountAllReduces : Observer {
  void begin(const Call& call) override { count += call.name == "all_reduce"; }
  int count = 0;
};

TEST(ColRow, needs_one_all_reduce_forward_and_one_backward) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.size() < 2) return;
    const auto counter = std::make_shared<CountAllReduces>();
    ColRow pair(feed_forward(6), on_tp(world.observed_by(counter)), "tp");
    initialize(*pair, 1);
    const at::Tensor x = at::ones({2, 6}).requires_grad_(true);
    const at::Tensor y = pair(x, kLayersPass);
    EXPECT_EQ(counter->count, 1);
    y.sum().backward();
    EXPECT_EQ(counter->count, 2);
  });
}

TEST(ParallelLinear, cut_by_inputs_sums_the_ranks_products_and_adds_the_bias_once) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    ParallelLinear split(linear(Cut::inputs, true), on_tp(world), "tp"),
        whole(linear(Cut::inputs, true), one_worker(), "tp");
    initialize(*split, 1);
    initialize(*whole, 1);
    const at::Tensor x = random_tensor({2, 7}, Kind::replicated, world);
    for (const Parameter& parameter : parameters_of(*split))
      if (parameter.name == "bias") at::NoGradGuard(), parameter.tensor.fill_(0.5);
    const Range mine = Split::balanced(7, world.size(), 1).ranges(world.rank())[0];
    EXPECT_TRUE(at::allclose(split(x.narrow(1, mine.begin, mine.size())), whole(x) + 0.5, 1e-13, 1e-13));
  });
}

TEST(ParallelEmbedding, cut_by_words_refuses_ids_that_are_no_words) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    ParallelEmbedding layer(
        ParallelEmbeddingOptions{.words = 5, .features = 2, .cut = ParallelEmbeddingOptions::Cut::vocabulary},
        on_tp(world), "tp");
    initialize(*layer, 1);
    for (const int64_t id : {5, -1}) EXPECT_ANY_THROW(layer(at::full({1, 2}, id, at::kLong))) << id;
  });
}

TEST(ParallelEmbedding, scores_words_by_its_own_weight) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const int64_t words : {9, 3})  // three words on four workers leave one without any
      expect_same_as_one_worker(
          world, {4, 5},
          [&](const Grid& grid) {
            return ParallelEmbedding(ParallelEmbeddingOptions{.words = words,
                                                              .features = 5,
                                                              .cut = ParallelEmbeddingOptions::Cut::vocabulary,
                                                              .tensor = at::kDouble},
                                     grid, "tp");
          },
          [](ParallelEmbedding& layer, const at::Tensor& x) {
            return gather_from(layer->scores(x), layer->group(), layer->split().along(1));
          });
  });
  ParallelEmbedding by_features(ParallelEmbeddingOptions{.words = 3, .features = 5}, one_worker(), "tp");
  EXPECT_THROW(by_features->scores(at::ones({1, 5})), InvalidArgument);
}

TEST(ParallelEmbedding, cut_either_way_is_the_layer_of_one_worker) {
  const at::Tensor ids = at::tensor({0, 3, 8, 3, 5, 0}, at::kLong).view({2, 3});
  using Cut = ParallelEmbeddingOptions::Cut;
  for (const Cut cut : {Cut::hidden, Cut::vocabulary})
    for (const int64_t words : {9, 3})  // three words on four workers leave one without any
      for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
        expect_same_as_one_worker(
            world, {1},
            [&](const Grid& grid) {
              return ParallelEmbedding(
                  ParallelEmbeddingOptions{.words = words, .features = 5, .cut = cut, .tensor = at::kDouble}, grid,
                  "tp");
            },
            [&](ParallelEmbedding& layer, const at::Tensor& x) { return layer(ids.remainder(words)) * x; });
      });
}

SelfAttentionOptions self_attention(double dropout, bool bias) {
  return {.hidden = 15,
          .heads = 3,
          .qkv_bias = bias,
          .out_bias = bias,
          .dropout = dropout,
          .name = "attention",
          .tensor = at::kDouble};
}

TEST(ParallelEmbedding, of_split_rows_makes_no_group) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto made = std::make_shared<Made>();
    const Communicator group = between_hosts(world, made);
    const Split features = Split::balanced(6, world.size(), 1), words = Split::balanced(9, world.size(), 0);
    const Split rows = Split::balanced(5, world.size(), 0);
    const at::Tensor ids = at::arange(5);
    hidden_parallel_embedding(ids, at::ones({9, features.size(world.rank())}).requires_grad_(), group, features, rows)
        .sum()
        .backward();
    vocabulary_parallel_embedding(ids, at::ones({words.size(world.rank()), 6}).requires_grad_(), group, words, rows)
        .sum()
        .backward();
    EXPECT_EQ(*made, std::pair(0, 0));
  });
}

TEST(ParallelSelfAttention, is_the_layer_of_one_worker_when_heads_do_not_divide) {
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {  // four workers leave one without a head
    for (const double dropout : {0.0, 0.3})
      for (const bool bias : {false, true})
        expect_same_as_one_worker(
            world, {5, 15},
            [&](const Grid& grid) { return ParallelSelfAttention(self_attention(dropout, bias), grid, "tp"); },
            [&](ParallelSelfAttention& layer, const at::Tensor& x) {
              return layer(x, with_rows(kLayersPass, {3, 2}));
            });
  });
}

TEST(ParallelSelfAttention, computes_softmax_of_scaled_products) {
  ParallelSelfAttention layer(self_attention(0, false), one_worker(), "tp");
  initialize(*layer, 2);
  const auto parameters = layer->named_parameters();
  const at::Tensor x = random_tensor({8, 15}, Kind::replicated, Communicator());
  const at::Tensor qkv = at::linear(x, parameters["qkv.weight"]).view({2, 4, 3, 3, 5}).permute({2, 0, 3, 1, 4});
  const at::Tensor p = at::softmax(at::matmul(qkv[0], qkv[1].transpose(-1, -2)) / std::sqrt(5.0), -1);
  const at::Tensor y = at::matmul(p, qkv[2]).transpose(1, 2).reshape({8, 15});
  const at::Tensor found = layer(x, with_rows(ForwardPass(), {4, 4}));
  EXPECT_TRUE(at::allclose(found, at::linear(y, parameters["out.weight"]), 1e-12, 1e-12));
  EXPECT_THROW(layer(x, ForwardPass()), InvalidArgument);
}

/// Six heads of four features, of which two each share keys and values.
SelfAttentionOptions grouped_heads(double dropout) {
  return {.hidden = 24,
          .heads = 6,
          .key_heads = 3,
          .causal = true,
          .rotary = RotaryOptions{.base = 100},
          .dropout = dropout,
          .name = "attention",
          .tensor = at::kDouble};
}

TEST(ParallelSelfAttention, with_grouped_causal_rotary_heads_is_the_layer_of_one_worker) {
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {  // four workers leave one without a head
    for (const double dropout : {0.0, 0.3})
      expect_same_as_one_worker(
          world, {7, 24}, [&](const Grid& grid) { return ParallelSelfAttention(grouped_heads(dropout), grid, "tp"); },
          [&](ParallelSelfAttention& layer, const at::Tensor& x) {
            return layer(x, with_rows(kLayersPass, {3, 4}));
          });
  });
}

TEST(ParallelSelfAttention, gives_each_group_of_queries_its_keys_and_hides_later_tokens) {
  ParallelSelfAttention layer(grouped_heads(0), one_worker(), "tp");
  initialize(*layer, 2);
  const auto parameters = layer->named_parameters();
  const at::Tensor x = random_tensor({5, 24}, Kind::replicated, Communicator());
  const at::Tensor qkv = at::linear(x, parameters["qkv.weight"]).view({5, 12, 4});
  const at::Tensor tokens = at::arange(5);
  const at::Tensor q = rotary(qkv.narrow(1, 0, 6), tokens, {100}), k = rotary(qkv.narrow(1, 6, 3), tokens, {100});
  std::vector<at::Tensor> heads;
  for (int64_t head = 0; head < 6; ++head) {
    const at::Tensor scores = at::matmul(q.select(1, head), k.select(1, head / 2).t()) / 2;
    const at::Tensor later = at::ones({5, 5}, at::kBool).triu(1);
    heads.push_back(at::matmul(scores.masked_fill(later, -INFINITY).softmax(-1), qkv.select(1, 9 + head / 2)));
  }
  const at::Tensor found = layer(x, with_rows(ForwardPass(), {5}));
  EXPECT_TRUE(at::allclose(found, at::linear(at::cat(heads, 1), parameters["out.weight"]), 1e-12, 1e-12));
}

/// Tokens [past, past + count) of one sample.
ForwardPass tokens_behind(int64_t past, int64_t count) {
  const int64_t length = past + count;
  return {.rows = LocalTokenRows(TokenRows::of_runs({{{0, {0, past}}}, {{0, {past, length}}}}, {length}), 1)};
}

TEST(ParallelSelfAttention, with_a_cache_is_that_of_all_tokens_however_they_come) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    ParallelSelfAttention layer(grouped_heads(0), on_tp(world), "tp");
    initialize(*layer, 2);
    const at::NoGradGuard no_gradient;
    const at::Tensor x = random_tensor({9, 24}, Kind::replicated, world);
    const at::Tensor expected = layer(x, with_rows(ForwardPass(), {9}));
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{9}, {4, 1, 1, 3}, {1, 8}}) {
      KeyValueCache cache(9);
      std::vector<at::Tensor> found;
      for (int64_t past = 0; const int64_t count : counts) {
        found.push_back(layer(x.narrow(0, past, count), tokens_behind(past, count), &cache));
        past += count;
      }
      EXPECT_TRUE(at::allclose(at::cat(found), expected, 1e-12, 1e-12));
    }
  });
}

TEST(ParallelSelfAttention, refuses_tokens_that_are_not_next_in_its_cache) {
  ParallelSelfAttention layer(grouped_heads(0), one_worker(), "tp");
  initialize(*layer, 2);
  KeyValueCache cache(4);
  const at::Tensor x = at::ones({2, 24}, at::kDouble);
  EXPECT_THROW(layer(x, tokens_behind(1, 2), &cache), InvalidArgument);
  layer(x, tokens_behind(0, 2), &cache);
  EXPECT_THROW(layer(x, tokens_behind(0, 2), &cache), InvalidArgument);
  layer(x, tokens_behind(2, 2), &cache);
  EXPECT_THROW(layer(x, tokens_behind(4, 2), &cache), InvalidArgument) << "there is no room";
}

TEST(ParallelSelfAttention, refuses_heads_that_do_not_fit) {
  const auto make = [](SelfAttentionOptions options) { ParallelSelfAttention(options, one_worker(), "tp"); };
  EXPECT_THROW(make({.hidden = 16, .heads = 3}), InvalidArgument);
  EXPECT_THROW(make({.hidden = 16, .heads = 4, .key_heads = 3}), InvalidArgument);
  EXPECT_THROW(make({.hidden = 12, .heads = 4, .rotary = RotaryOptions{.base = 10}}), InvalidArgument)
      << "three features a head";
}

TEST(ReplicatedNorm, is_the_same_on_every_worker_and_is_torchs) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    expect_same_as_one_worker(
        world, {3, 6},
        [](const Grid& grid) { return ReplicatedNorm(NormOptions{.features = 6, .tensor = at::kDouble}, grid, "tp"); },
        [](ReplicatedNorm& layer, const at::Tensor& x) { return layer(x); });
    ReplicatedNorm layer(NormOptions{.features = 6, .tensor = at::kDouble}, on_tp(world), "tp");
    initialize(*layer, 1);
    torch::nn::LayerNorm reference(torch::nn::LayerNormOptions({6}));
    reference->to(at::kDouble);
    const at::Tensor x = random_tensor({3, 6}, Kind::replicated, world);
    EXPECT_TRUE(at::allclose(layer(x), reference(x), 1e-12, 1e-12));
  });
}

TEST(Stacked, gives_each_rank_its_part_of_every_layer) {
  const Split split = stacked({Split::balanced(3, 2, 0), Split::balanced(5, 2, 0)});
  EXPECT_EQ(split, Split::of_ranges({{{0, 2}, {3, 6}}, {{2, 3}, {6, 8}}}, 8, 0));
  EXPECT_THROW(stacked({}), InvalidArgument);
  EXPECT_THROW(stacked({Split::balanced(3, 2, 0), Split::balanced(3, 1, 0)}), InvalidArgument);
}

TEST(ParallelLinear, refuses_sizes_and_splits_that_do_not_fit) {
  for (const Cut cut : {Cut::none, Cut::outputs, Cut::inputs}) {
    ParallelLinearOptions options = linear(cut, false);
    options.split = [](int parts) { return Split::balanced(9, parts, 0); };
    EXPECT_THROW(ParallelLinear(options, one_worker(), "tp"), InvalidArgument);
    options = linear(cut, false);
    options.in_features = 0;
    EXPECT_THROW(ParallelLinear(options, one_worker(), "tp"), InvalidArgument);
  }
}

}  // namespace
}  // namespace adjoin::nn
