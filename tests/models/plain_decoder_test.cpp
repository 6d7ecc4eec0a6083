// The decoder of examples/networks, a plain module of LibTorch, against models::decoder.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/models/decoder.hpp"
#include "adjoin/models/model.hpp"
#include "adjoin/nn/cross_entropy.hpp"
#include "adjoin/nn/init.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "examples/networks/decoder.hpp"
#include "tests/support/decoders.hpp"

namespace adjoin::models {
namespace {

using namespace adjoin::testing;

/// Documents of these lengths, padded at their ends, where no token has a target and no earlier token attends.
struct DecoderBatch {
  DecoderBatch(std::vector<int64_t> of_documents, int64_t words) : lengths(std::move(of_documents)) {
    const int64_t tokens = *std::ranges::max_element(lengths);
    const at::Tensor document = at::arange(std::ssize(lengths)).unsqueeze(1), token = at::arange(tokens + 1);
    const at::Tensor text = (7 * document + token * token + 3 * token).remainder(words);
    is_token = token.narrow(0, 0, tokens) < at::tensor(lengths, at::kLong).unsqueeze(1);
    ids = text.narrow(1, 0, tokens) * is_token;
    targets = text.narrow(1, 1, tokens).masked_fill(is_token.logical_not(), -1);
  }
  std::vector<int64_t> lengths;
  at::Tensor ids, targets, is_token;  // [documents, longest]
};

/// The mean over the tokens.
at::Tensor loss_of(Model& model, const DecoderBatch& batch) {
  const ForwardPass pass{{.number = 1, .training = true}, LocalTokenRows(TokenRows::balanced(batch.lengths, 1))};
  const at::Tensor scores = model(batch.ids.masked_select(batch.is_token), pass);
  return nn::vocabulary_parallel_cross_entropy(scores, batch.targets.masked_select(batch.is_token), Communicator(),
                                               Split::balanced(scores.size(1), 1, 0)) /
         static_cast<double>(scores.size(0));
}
at::Tensor loss_of(example::Decoder& model, const DecoderBatch& batch) {
  return at::cross_entropy_loss(model(batch.ids).flatten(0, 1), batch.targets.flatten(), /*weight=*/{},
                                at::Reduction::Mean, /*ignore_index=*/-1);
}

/// |found - expected| / max(1, |expected|), the largest of all elements.
double difference_of(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).abs() / expected.abs().clamp_min(1)).max().item<double>();
}

constexpr double kRate = 1e-3, kDecay = 0.1, kClip = 0.5;

std::vector<double> losses_of_steps(Model& model, const DecoderBatch& batch, int steps) {
  parallel::Optimizer optimizer(nn::parameters_of(*model), parallel::adamw(), {.weight_decay = kDecay, .clip = kClip});
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const at::Tensor loss = loss_of(model, batch);
    losses.push_back(loss.item<double>());
    loss.backward();
    optimizer.step(kRate);
  }
  return losses;
}

/// As parallel::Optimizer clips; torch::nn::utils::clip_grad_norm_ adds 1e-6 to the norm.
void clip(const std::vector<at::Tensor>& parameters) {
  at::Tensor squares = at::zeros({}, at::kDouble);
  for (const at::Tensor& parameter : parameters) squares += parameter.grad().square().sum();
  const double norm = std::sqrt(squares.item<double>());
  EXPECT_GT(norm, kClip) << "nothing is clipped, so agreement would mean little";
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad().mul_(std::min(1.0, kClip / norm));
}

std::vector<double> losses_of_steps(example::Decoder& model, const DecoderBatch& batch, int steps) {
  std::vector<at::Tensor> matrices, vectors;
  for (const at::Tensor& parameter : model->parameters())
    (parameter.dim() > 1 ? matrices : vectors).push_back(parameter);
  const auto options = [](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(kRate).weight_decay(decay));
  };
  torch::optim::AdamW optimizer({torch::optim::OptimizerParamGroup(matrices, options(kDecay)),
                                 torch::optim::OptimizerParamGroup(vectors, options(0))},
                                torch::optim::AdamWOptions(kRate));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = loss_of(model, batch);
    losses.push_back(loss.item<double>());
    loss.backward();
    clip(model->parameters());
    optimizer.step();
  }
  return losses;
}

struct DecoderCase {
  example::DecoderOptions options;
  DecoderBatch batch;
};

std::vector<DecoderCase> decoder_cases() {
  const example::DecoderOptions tiny{.words = 23, .layers = 1, .hidden = 20, .heads = 5, .dropout = 0};
  example::DecoderOptions small;  // gpt-small, with fewer layers
  small.layers = 2;
  return {{tiny, DecoderBatch({9, 9, 9}, tiny.words)},
          {tiny, DecoderBatch({4, 9, 1, 6}, tiny.words)},
          {small, DecoderBatch({70, 70}, small.words)}};
}

TEST(PlainDecoder, has_the_loss_and_the_gradients_of_the_models_decoder) {
  for (auto& [options, batch] : decoder_cases()) {
    DecoderPair pair(options);
    const at::Tensor expected = loss_of(pair.ours, batch), found = loss_of(pair.plain, batch);
    EXPECT_LE(difference_of(found, expected), 1e-12);
    expected.backward();
    found.backward();
    const auto ours = pair.ours->named_parameters(), plain = pair.plain->named_parameters();
    ASSERT_EQ(plain.size(), ours.size());
    for (const auto& parameter : plain) {
      const at::Tensor gradient = ours[name_in_models(parameter.key())].grad();
      EXPECT_GT(gradient.abs().max().item<double>(), 0) << parameter.key();
      EXPECT_LE(difference_of(parameter->grad(), gradient), 1e-12) << parameter.key();
    }
  }
}

TEST(PlainDecoder, trains_as_the_models_decoder) {
  for (auto& [options, batch] : decoder_cases()) {
    DecoderPair pair(options);
    const std::vector<double> expected = losses_of_steps(pair.ours, batch, 10);
    const std::vector<double> found = losses_of_steps(pair.plain, batch, 10);
    EXPECT_LT(expected.back(), 0.99 * expected.front()) << "little was learned, so agreement would mean little";
    for (size_t step = 0; step < expected.size(); ++step)
      EXPECT_NEAR(found[step], expected[step], 1e-9) << "step " << step;
  }
}

}  // namespace
}  // namespace adjoin::models
