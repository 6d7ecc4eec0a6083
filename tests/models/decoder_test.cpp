#include "adjoin/models/decoder.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/models/model.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/cross_entropy.hpp"
#include "adjoin/nn/positions.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::models {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;

/// Neither words, hidden features, heads nor inner features divide by 3; of the modern one also not by 2 or 4.
TransformerOptions learned_gelu() {
  return {.words = 23,
          .layers = 2,
          .hidden = 20,
          .heads = 5,
          .context = 9,
          .positions = TransformerOptions::Positions::learned,
          .dropout = 0.2,
          .embedding_dropout = 0.2,
          .attention_dropout = 0.1,
          .embedding_deviation = 0.3};
}
TransformerOptions rotary_grouped_swiglu() {
  TransformerOptions options = learned_gelu();
  options.heads = 10;
  options.key_heads = 5;
  options.positions = TransformerOptions::Positions::rotary;
  options.activation = nn::Activation::swiglu;
  return options;
}
/// With all that the others lack.
TransformerOptions with_biases_and_rms() {
  TransformerOptions options = rotary_grouped_swiglu();
  options.head_size = 6;
  options.inner = 21;
  options.norm = nn::NormOptions::Kind::rms;
  options.norm_epsilon = 1e-3;
  options.rotary = {.base = 50,
                    .scaling = nn::RotaryOptions::Scaling::llama3,
                    .factor = 3,
                    .low_turns = 0.1,
                    .high_turns = 0.8,
                    .trained_tokens = 5};
  options.attention_bias = TransformerOptions::AttentionBias::all;
  options.feed_forward_bias = true;
  return options;
}
const TransformerOptions kDecoders[] = {learned_gelu(), rotary_grouped_swiglu(), with_biases_and_rms()};

ForwardPass decoder_step(const std::vector<int64_t>& lengths, int64_t first_sample = 0, int64_t step = 0) {
  return {{.seed = 1, .number = step, .training = true, .first_sample = first_sample},
          LocalTokenRows(TokenRows::balanced(lengths, 1))};
}
ForwardPass evaluation(const std::vector<int64_t>& lengths) {
  ForwardPass pass = decoder_step(lengths);
  pass.step.training = false;
  return pass;
}

Model decoder_on(const Grid& grid, const TransformerOptions& options, const at::TensorOptions& tensor = at::kDouble) {
  return Model(decoder(options), grid, tensor);
}
Split words_of(const Model& model) {
  return Split::balanced(23, model->stage().axis("tp").size(), 0);
}

const at::Tensor kIds = at::tensor({2, 7, 9, 3, 2, 11, 3, 2, 22, 3}, at::kLong);
const at::Tensor kTargets = at::tensor({7, 9, 3, -1, 11, 3, 1, 22, 0, 19}, at::kLong);

at::Tensor decoder_loss(Model& model, const at::Tensor& ids, const at::Tensor& targets, const ForwardPass& pass) {
  return nn::vocabulary_parallel_cross_entropy(model(ids, pass), targets, model->stage().axis("tp"), words_of(model));
}

using Weights = std::map<std::string, at::Tensor>;

/// The scores of one sample, [tokens] -> [tokens, words], as one would write them down.
at::Tensor by_formula(const TransformerOptions& o, const Weights& w, const at::Tensor& ids) {
  const int64_t rows = ids.size(0), keys = o.key_heads ? o.key_heads : o.heads;
  const int64_t size = o.head_size ? o.head_size : o.hidden / o.heads;
  const bool is_rotary = o.positions == TransformerOptions::Positions::rotary;
  const auto norm = [&](const at::Tensor& x, const std::string& name) {
    if (o.norm == nn::NormOptions::Kind::layer)
      return at::layer_norm(x, {o.hidden}, w.at(name + ".weight"), w.at(name + ".bias"));
    return x * (x.pow(2).mean(-1, true) + o.norm_epsilon).rsqrt() * w.at(name + ".weight");
  };
  const auto linear = [&](const at::Tensor& x, const std::string& name) {
    return at::linear(x, w.at(name + ".weight"), w.contains(name + ".bias") ? w.at(name + ".bias") : at::Tensor());
  };
  at::Tensor x = w.at("embedding.weight").index_select(0, ids);
  if (!is_rotary) x = x + w.at("positions.weight").narrow(0, 0, rows);
  for (int64_t i = 0; i < o.layers; ++i) {
    const std::string block = "block" + std::to_string(i);
    const at::Tensor qkv = linear(norm(x, block + ".norm1"), block + ".attention.qkv");
    const auto heads = [&](int64_t first, int64_t count, bool turns) {
      const at::Tensor part = qkv.narrow(1, first * size, count * size).view({rows, count, size});
      return (turns ? nn::rotary(part, at::arange(rows), o.rotary) : part).transpose(0, 1);
    };
    const at::Tensor q = heads(0, o.heads, is_rotary);
    const at::Tensor k = heads(o.heads, keys, is_rotary).repeat_interleave(o.heads / keys, 0);
    const at::Tensor v = heads(o.heads + keys, keys, false).repeat_interleave(o.heads / keys, 0);
    const at::Tensor later = at::ones({rows, rows}, at::kBool).triu(1);
    const at::Tensor scores = (at::matmul(q, k.transpose(1, 2)) / std::sqrt(static_cast<double>(size)))
                                  .masked_fill(later, -std::numeric_limits<double>::infinity());
    const at::Tensor y = at::matmul(scores.softmax(-1), v).transpose(0, 1).reshape({rows, o.heads * size});
    x = x + linear(y, block + ".attention.out");
    at::Tensor inner = linear(norm(x, block + ".norm2"), block + ".feed_forward.column");
    const int64_t half = inner.size(1) / 2;
    inner = o.activation == nn::Activation::swiglu ? at::silu(inner.narrow(1, 0, half)) * inner.narrow(1, half, half)
                                                   : at::gelu(inner);
    x = x + linear(inner, block + ".feed_forward.row");
  }
  return at::linear(norm(x, "norm"), w.at("embedding.weight"));
}

TEST(Decoder, is_its_formula_in_output_and_gradients_on_1_to_4_workers) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const TransformerOptions& options : kDecoders) {
      Model model = decoder_on(on_tp(world), options);
      nn::initialize(*model, 3);
      Weights weights = global_tensors(*model, /*gradients=*/false);
      for (auto& [name, weight] : weights) weight = weight.clone().requires_grad_(true);
      const at::Tensor expected =
          at::cat({by_formula(options, weights, kIds.slice(0, 0, 4)), by_formula(options, weights, kIds.slice(0, 4))});
      at::cross_entropy_loss(expected, kTargets, {}, at::Reduction::Sum, -1).backward();

      const at::Tensor scores = model(kIds, evaluation({4, 6}));
      EXPECT_EQ(scores.size(1), words_of(model).size(world.rank()));
      EXPECT_TRUE(at::allclose(gather_from(scores, world, words_of(model).along(1)), expected, 1e-11, 1e-11));
      nn::vocabulary_parallel_cross_entropy(scores, kTargets, model->stage().axis("tp"), words_of(model)).backward();
      Weights gradients;
      for (const auto& [name, weight] : weights) gradients[name] = weight.grad();
      expect_same_tensors(global_tensors(*model, /*gradients=*/true), gradients, "gradients");
    }
  });
}

TEST(Decoder, has_its_tied_weight_once) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    Model model = decoder_on(on_tp(world), learned_gelu());
    nn::initialize(*model, 3);
    decoder_loss(model, kIds, kTargets, evaluation({4, 6})).backward();
    double sum = 0;
    int embeddings = 0;
    for (const auto& [name, gradient] : global_tensors(*model, /*gradients=*/true)) {
      sum += gradient.square().sum().item<double>();
      embeddings += gradient.sizes() == at::IntArrayRef({23, 20});
    }
    EXPECT_EQ(embeddings, 1);
    parallel::Optimizer optimizer(nn::parameters_of(*model), parallel::adamw());
    EXPECT_NEAR(optimizer.step(1e-3).norm, std::sqrt(sum), 1e-9 * std::sqrt(sum));
  });
}

/// Losses of optimizer steps on documents of one to nine tokens, on a grid {dp, tp}, a worker's documents in micro-batches.
std::vector<double> decoder_losses(const TransformerOptions& options, const Grid& grid, int64_t microbatches) {
  const std::vector<int64_t> lengths{9, 1, 4, 6, 2, 8, 3};
  const Communicator& dp = grid.axis("dp");
  const int64_t samples = std::ssize(lengths), first = Split::balanced(samples, dp.size(), 0).offset(dp.rank());
  const Split mine =
      Split::balanced(Split::balanced(samples, dp.size(), 0).size(dp.rank()), static_cast<int>(microbatches), 0);
  Model model = decoder_on(grid, options);
  nn::initialize(*model, 5);
  parallel::Optimizer optimizer(nn::parameters_of(*model), parallel::adamw(), {.weight_decay = 0.1, .clip = 1});
  std::vector<double> losses;
  for (int64_t step = 0; step < 10; ++step) {
    at::Tensor total = at::zeros({1}, at::kDouble);
    for (int part = 0; part < mine.parts(); ++part) {
      const int64_t begin = first + mine.offset(part);
      std::vector<int64_t> here, text;
      for (int64_t sample = begin; sample < begin + mine.size(part); ++sample) {
        here.push_back(lengths[static_cast<size_t>(sample)]);
        for (int64_t token = 0; token < here.back(); ++token) text.push_back((3 * sample + token * token) % 23);
      }
      const at::Tensor ids = at::tensor(text, at::kLong);
      const at::Tensor loss = decoder_loss(model, ids, (ids + 1).remainder(23), decoder_step(here, begin, step)) / 33;
      loss.backward();
      total += loss.detach();
    }
    optimizer.step(1e-2);
    losses.push_back(sum(total, dp).item<double>());
  }
  return losses;
}

TEST(Decoder, trains_the_same_model_in_every_layout_and_in_micro_batches) {
  for (TransformerOptions options : kDecoders) {
    options.layers = 1;
    const std::vector<double> expected = decoder_losses(options, Grid(Communicator(), {{"dp", 1}, {"tp", 1}}), 1);
    EXPECT_LT(expected.back(), 0.8 * expected.front()) << "little was learned, so agreement would mean little";
    for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
      for (const int tp : {1, 2, 3, 4}) {
        if (world.size() % tp != 0) continue;
        const Grid grid(world, {{"dp", world.size() / tp}, {"tp", tp}});
        for (const int64_t microbatches : {1, 3}) {
          const std::vector<double> found = decoder_losses(options, grid, microbatches);
          for (size_t step = 0; step < expected.size(); ++step)
            ASSERT_NEAR(found[step], expected[step], 1e-9)
                << grid.shape().to_string() << ", micro-batches " << microbatches << ", step " << step;
        }
      }
    });
  }
}

TEST(Decoder, scores_a_document_alike_beside_others_and_alone) {
  for (const TransformerOptions& options : kDecoders) {
    Model model = decoder_on(one_worker(), options);
    nn::initialize(*model, 3);
    const at::Tensor both = model(kIds, decoder_step({4, 6}));
    EXPECT_TRUE(at::allclose(both.slice(0, 0, 4), model(kIds.slice(0, 0, 4), decoder_step({4})), 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(both.slice(0, 4), model(kIds.slice(0, 4), decoder_step({6}, 1)), 1e-12, 1e-12));
  }
}

TEST(Decoder, scores_a_token_by_what_is_before_it) {
  for (const TransformerOptions& options : kDecoders) {
    Model model = decoder_on(one_worker(), options);
    nn::initialize(*model, 3);
    const at::Tensor ids = kIds.slice(0, 0, 6), other = ids.clone();
    other[4] = 20;
    const at::Tensor a = model(ids, evaluation({6})), b = model(other, evaluation({6}));
    EXPECT_TRUE(at::allclose(a.slice(0, 0, 4), b.slice(0, 0, 4), 1e-12, 1e-12));
    EXPECT_FALSE(at::allclose(a.slice(0, 5), b.slice(0, 5), 1e-3, 1e-3));
  }
}

// A bfloat16 has 8 bits: the loss, a sum of 9 rows in float32, is that of float64 to a few of them.
TEST(Decoder, with_weights_of_16_bits_has_its_loss_in_float32) {
  for (const TransformerOptions& options : kDecoders) {
    Model exact = decoder_on(one_worker(), options), rough = decoder_on(one_worker(), options, at::kBFloat16);
    nn::initialize(*exact, 3);
    nn::initialize(*rough, 3);
    const at::Tensor expected = decoder_loss(exact, kIds, kTargets, evaluation({4, 6}));
    const at::Tensor found = decoder_loss(rough, kIds, kTargets, evaluation({4, 6}));
    EXPECT_EQ(found.scalar_type(), at::kFloat);
    EXPECT_NEAR(found.item<double>(), expected.item<double>(), 0.02 * expected.item<double>());
    found.backward();
    for (const at::Tensor& parameter : rough->parameters()) EXPECT_EQ(parameter.grad().scalar_type(), at::kBFloat16);
  }
}

TEST(Decoder, takes_a_worker_without_samples) {
  for_each_world({1, 2}, [](const Communicator& world) {
    Model model = decoder_on(on_tp(world), learned_gelu());
    nn::initialize(*model, 3);
    const at::Tensor none = at::zeros({0}, at::kLong);
    decoder_loss(model, none, none, decoder_step({})).backward();
    for (const at::Tensor& parameter : model->parameters()) EXPECT_TRUE(parameter.grad().eq(0).all().item<bool>());
  });
}

struct CountModelCalls : Observer {
  void begin(const Call& call) override { ++counts[std::string(call.name)]; }
  std::map<std::string, int> counts;
};

// 2 layers + 1 all-reduces each way, an all-gather of learned positions, and two all-reduces of the loss.
TEST(Decoder, moves_what_its_cost_says) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.size() < 2) return;
    for (const TransformerOptions& options : kDecoders) {
      const auto counter = std::make_shared<CountModelCalls>();
      Model model = decoder_on(on_tp(world.observed_by(counter)), options);
      nn::initialize(*model, 3);
      const at::Tensor scores = model(kIds, decoder_step({4, 6}));
      EXPECT_EQ(counter->counts["all_reduce"], 5);
      if (!world.checked()) {  // which gathers what it compares
        EXPECT_EQ(counter->counts["all_gather"], options.positions == TransformerOptions::Positions::learned ? 1 : 0);
      }
      const at::Tensor loss =
          nn::vocabulary_parallel_cross_entropy(scores, kTargets, model->stage().axis("tp"), words_of(model));
      EXPECT_EQ(counter->counts["all_reduce"], 7);
      loss.backward();
      EXPECT_EQ(counter->counts["all_reduce"], 12);
    }
  });
}

TEST(Decoder, counts_the_products_of_a_row_in_its_segments) {
  const std::vector<Segment> segments = decoder(rotary_grouped_swiglu());
  ASSERT_EQ(segments.size(), 4u);
  // Queries and output of 20 x 20, keys and values of 10 x 20, three matrices of 54 x 20; words of 23 x 20.
  EXPECT_EQ(segments[1].cost, 2 * (2 * 400 + 2 * 200 + 3 * 54 * 20));
  EXPECT_EQ(segments[3].cost, 2 * 23 * 20);
}

std::string decoder_refusal(const TransformerOptions& options, const Grid& grid) {
  try {
    decoder_on(grid, options);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(Decoder, refuses_sizes_that_do_not_fit) {
  TransformerOptions options = learned_gelu();
  options.context = 0;
  EXPECT_THAT(decoder_refusal(options, one_worker()), HasSubstr("at least 1 token of context"));
  options = rotary_grouped_swiglu();
  options.key_heads = 3;
  EXPECT_THAT(decoder_refusal(options, one_worker()),
              HasSubstr("a number of key heads that divides the 10 query heads"));
  for_each_world({3}, [](const Communicator& world) {
    if (world.size() < 3) return;
    TransformerOptions two = rotary_grouped_swiglu();
    two.key_heads = 2;
    EXPECT_THAT(decoder_refusal(two, on_tp(world)), HasSubstr("ranks and 2 heads of keys"));
  });
  Model model = decoder_on(one_worker(), learned_gelu());
  EXPECT_THROW(model(at::zeros({10}, at::kLong), evaluation({10})), InvalidArgument) << "the context is 9";
}

}  // namespace
}  // namespace adjoin::models
