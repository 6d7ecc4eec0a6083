// Modules of LibTorch's own layers, unchanged, whose ranks come to their weights in different orders or not at all.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>
#include <torch/optim/sgd.h>

#include <algorithm>

#include "adjoin/movement/recompute.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/weights.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/sequentials.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

constexpr int64_t kWidth = 4, kWords = 11;

/// What one rank does in one step of a network.
struct Use {
  std::vector<int> branches;  // in this order, each of two layers
  std::vector<int> tables;    // in which it looks up, in this order
  bool recomputes, convolves, remembers, attends, reads_table;
};

/// Branches that share layers; a table that is also the last layer, and others in which rows are looked up, one of them frozen;
/// layers with weights in lists; a frozen layer.
struct Branches : torch::nn::Module {
  explicit Branches(int64_t seed)
      : words(register_module("words", torch::nn::Embedding(kWords, kWidth))),
        convolution(
            register_module("convolution", torch::nn::Conv1d(torch::nn::Conv1dOptions(kWidth, kWidth, 3).padding(1)))),
        memory(register_module(
            "memory", torch::nn::LSTM(torch::nn::LSTMOptions(kWidth, kWidth).num_layers(2).batch_first(true)))),
        attention(register_module("attention", torch::nn::MultiheadAttention(kWidth, 2))) {
    for (int i = 0; i < 4; ++i) {
      linears.push_back(register_module("linear" + std::to_string(i), torch::nn::Linear(kWidth, kWidth)));
      norms.push_back(
          register_module("norm" + std::to_string(i), torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth}))));
    }
    for (int i = 0; i < 3; ++i) {
      auto options = torch::nn::EmbeddingOptions(kWords, kWidth);
      if (i == 1) options.padding_idx(2);
      tables.push_back(register_module("table" + std::to_string(i), torch::nn::Embedding(options)));
    }
    to(at::kDouble);
    const at::NoGradGuard no_gradient;
    for (const at::Tensor& weight : parameters()) weight.copy_(drawn(weight.sizes(), seed++) * 0.5);
    for (const at::Tensor& weight : linears[2]->parameters()) weight.requires_grad_(false);
    tables[2]->weight.requires_grad_(false);
  }

  at::Tensor branch(int i, const at::Tensor& x) {
    const auto next = static_cast<size_t>(i + 1) % linears.size(), own = static_cast<size_t>(i);
    return norms[own](linears[next](linears[own](x).tanh())).tanh();
  }
  at::Tensor forward(const at::Tensor& numbers, const Use& use) {
    at::Tensor h = words(numbers);
    for (const int i : use.tables) {
      const auto run = [this, i, numbers](const std::vector<at::Tensor>& in) {
        return (in[0] + tables[static_cast<size_t>(i)](numbers.remainder(5))).tanh();
      };
      h = use.recomputes ? recomputed(run, {h}) : run({h});
    }
    if (use.reads_table) h = h * tables[0]->weight.narrow(0, 3, 1).tanh();
    std::vector<at::Tensor> results(linears.size());
    for (const int i : use.branches) {
      const auto run = [this, i](const std::vector<at::Tensor>& in) { return branch(i, in[0]); };
      results[static_cast<size_t>(i)] = use.recomputes && i % 2 == 1 ? recomputed(run, {h}) : run({h});
    }
    for (const at::Tensor& result : results)  // in one order, whatever the order in which they were computed
      if (result.defined()) h = h + result;
    if (use.convolves) h = h + convolution(h.transpose(1, 2)).transpose(1, 2);
    if (use.remembers) h = h + std::get<0>(memory(h));
    if (use.attends) h = h + std::get<0>(attention(h, h, h));
    h = h + at::matmul(h, linears[0]->weight.t().contiguous().view({kWidth, kWidth}));
    return at::matmul(h, words->weight.t());
  }

  torch::nn::Embedding words;
  torch::nn::Conv1d convolution;
  torch::nn::LSTM memory;
  torch::nn::MultiheadAttention attention;
  std::vector<torch::nn::Linear> linears;
  std::vector<torch::nn::LayerNorm> norms;
  std::vector<torch::nn::Embedding> tables;
};

/// What the ranks do: often the same, otherwise in another order, or with other layers.
std::vector<Use> drawn_uses(Numbers& draw, int ranks) {
  std::vector<Use> uses;
  const bool differ = draw.one_in(2);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank > 0 && !differ) {
      uses.push_back(uses[0]);
      continue;
    }
    Use use{{}, {}, draw.one_in(2), draw.one_in(2), draw.one_in(2), draw.one_in(3), draw.one_in(4)};
    for (int64_t look_ups = draw.from(0, 4); look_ups > 0; --look_ups)
      use.tables.push_back(static_cast<int>(draw.from(0, 2)));
    for (int i = 0; i < 4; ++i)
      if (!draw.one_in(3)) use.branches.insert(use.branches.begin() + draw.from(0, std::ssize(use.branches)), i);
    uses.push_back(use);
  }
  return uses;
}

at::Tensor loss_in(Branches& net, const at::Tensor& numbers, const Use& use) {
  return net.forward(numbers, use).square().mean();
}

void expect_same(const nn::State& found, const Branches& single, const std::string& what) {
  const auto expected = single.named_parameters();
  for (const auto& [name, tensor] : found)
    EXPECT_TRUE(at::allclose(tensor, expected[name], 1e-11, 1e-11)) << what << " " << name;
}

void train(const Communicator& world, uint64_t seed) {
  Numbers draw(seed);
  Branches net(world.rank() * 100), single(0);
  WeightsOptions options{.zero = static_cast<int>(draw.one_in(3) ? draw.from(0, 2) : 3)};
  options.bucket_bytes = options.unit_bytes = draw.one_in(2) ? 0 : draw.from(1, 2000);
  Weights weights(net, world, options);
  torch::optim::SGD optimizer(weights.parts(), 0.05), reference(single.parameters(), 0.05);
  std::vector<Use> uses = drawn_uses(draw, world.size());
  for (int64_t step = 0; step < 3; ++step) {
    if (draw.one_in(2)) uses = drawn_uses(draw, world.size());
    const int64_t micro_batches = draw.from(1, 2);
    std::vector<at::Tensor> batches;  // of all ranks and micro-batches
    int64_t total = 0;
    for (int64_t i = 0; i < world.size() * micro_batches; ++i) {
      const int64_t samples = draw.one_in(4) ? 0 : draw.from(1, 3);
      batches.push_back((drawn({samples, 3}, 10 * step + i).abs() * 7).to(at::kLong).remainder(kWords));
      total += samples;
    }
    reference.zero_grad();
    double expected = 0, found = 0;
    for (size_t i = 0; i < batches.size(); ++i) {
      if (batches[i].size(0) == 0) continue;
      const at::Tensor loss = loss_in(single, batches[i], uses[i % uses.size()]) * batches[i].size(0) / total;
      loss.backward();
      expected += loss.item<double>();
    }
    for (int64_t i = 0; i < micro_batches; ++i) {
      const at::Tensor& mine = batches[static_cast<size_t>(i * world.size() + world.rank())];
      const at::Tensor loss =
          mine.size(0) > 0 ? loss_in(net, mine, uses[static_cast<size_t>(world.rank())]) : at::Tensor();
      found = weights.backward(loss, mine.size(0), {.last = i + 1 == micro_batches});
    }
    EXPECT_NEAR(found, expected, 1e-11);
    weights.step(optimizer);
    reference.step();
    expect_same(nn::gather_state(weights.parameters()), single, "seed " + std::to_string(seed));
  }
}

TEST(AnyModule, trains_as_one_worker_in_every_stage_whatever_the_order_on_each_rank) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_seed(world, 12, [&](uint64_t seed) { train(world, seed); });
  });
}

}  // namespace
}  // namespace adjoin::parallel
