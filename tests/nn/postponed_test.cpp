#include "adjoin/movement/postponed.hpp"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "adjoin/movement/recompute.hpp"
#include "adjoin/nn/embedding.hpp"
#include "adjoin/nn/linear.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

/// How numbers are computed: in a type, or in float32 with products in bfloat16.
struct Precision {
  at::ScalarType type = at::kFloat;
  bool is_autocast = false;
};
const std::vector<Precision> kPrecisions{{at::kDouble}, {at::kFloat}, {at::kFloat, true}};

template <class Run>
at::Tensor with_precision(const Precision& precision, Run run) {
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_enabled(at::kCPU, precision.is_autocast);
  const at::Tensor y = run();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  return y;
}

/// Compares the gradients of two micro-batches that wait, and are computed after both, with those that do not, bit by bit.
/// What must wait is all parameters but `at_once`; what waits communicates nothing.
template <class Make, class Run>
void expect_same_bits(const Communicator& world, const Precision& precision, Make make, Run run,
                      const std::set<std::string>& at_once = {}) {
  const auto counter = std::make_shared<CallCount>();
  const Grid grid = on_tp(world.observed_by(counter));
  auto now = make(grid), later = make(grid);
  initialize(*now, 11);
  initialize(*later, 11);
  std::vector<PostponedGradients> postponed(2);
  for (int64_t batch = 0; batch < 2; ++batch) {
    std::vector<at::Tensor> of_inputs;
    for (const bool waits : {false, true}) {
      auto& layer = waits ? later : now;
      at::Tensor x;
      const at::Tensor y = with_precision(precision, [&] { return run(layer, x, batch); });
      const at::Tensor of_y = random_tensor(y.sizes(), Kind::replicated, world, 7 + batch).to(y.scalar_type());
      if (waits)
        postponed[static_cast<size_t>(batch)].collect([&] { y.backward(of_y); });
      else
        y.backward(of_y);
      of_inputs.push_back(x.defined() ? x.grad() : at::Tensor());
    }
    if (of_inputs[0].defined()) {
      EXPECT_TRUE(at::equal(of_inputs[0], of_inputs[1])) << "gradient of the input";
    }
  }
  for (const auto& parameter : later->named_parameters())
    EXPECT_EQ(parameter.value().grad().defined(), at_once.contains(parameter.key())) << parameter.key();
  const int calls = counter->calls;
  for (PostponedGradients& of_batch : postponed) of_batch.compute();
  EXPECT_EQ(counter->calls, calls);
  for (const auto& parameter : now->named_parameters())
    EXPECT_TRUE(at::equal(parameter.value().grad(), later->named_parameters()[parameter.key()].grad()))
        << parameter.key();
}

/// Of three samples, with rows that no number of ranks divides.
constexpr int64_t kPostponedRows = 11;
LocalTokenRows postponed_rows() {
  return LocalTokenRows(TokenRows::balanced({5, 1, 5}, 1));
}

/// An input of `features` features of which this rank has its part.
at::Tensor input(const Communicator& world, const Precision& precision, int64_t rows, int64_t features, int64_t seed) {
  return random_tensor({rows, features}, Kind::split, world, seed).to(precision.type).requires_grad_(true);
}

using LinearCut = ParallelLinearOptions::Cut;

void for_each_linear(const std::function<void(const ParallelLinearOptions&, const Precision&)>& fn) {
  for (const Precision& precision : kPrecisions)
    for (const LinearCut cut : {LinearCut::none, LinearCut::outputs, LinearCut::inputs})
      for (const bool bias : {false, true})
        for (const bool split_rows : {false, true})
          fn({.in_features = 7,
              .out_features = 10,
              .cut = cut,
              .bias = bias,
              .split_rows = split_rows,
              .tensor = precision.type},
             precision);
}

at::Tensor linear_input(const ParallelLinearOptions& options, const Communicator& world, const Precision& precision,
                        int64_t batch) {
  const auto part = [&](int64_t size) { return Split::balanced(size, world.size(), 0).size(world.rank()); };
  const bool has_part_of_rows = options.cut == LinearCut::outputs && options.split_rows;
  return input(world, precision, has_part_of_rows ? part(kPostponedRows) : kPostponedRows,
               options.cut == LinearCut::inputs ? part(options.in_features) : options.in_features, batch);
}

TEST(PostponedGradients, of_linear_layers_are_those_of_backward) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for_each_linear([&](const ParallelLinearOptions& options, const Precision& precision) {
      expect_same_bits(
          world, precision, [&](const Grid& grid) { return ParallelLinear(options, grid, "tp"); },
          [&](ParallelLinear& layer, at::Tensor& x, int64_t batch) {
            x = linear_input(options, world, precision, batch);
            return layer(x, postponed_rows());
          },
          options.cut == LinearCut::inputs ? std::set<std::string>{"bias"} : std::set<std::string>());
    });
  });
}

TEST(PostponedGradients, of_what_is_recomputed_are_those_of_backward) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for (const Precision& precision : kPrecisions)
      for (const bool split_rows : {false, true})
        expect_same_bits(
            world, precision,
            [&](const Grid& grid) {
              return ColRow(ColRowOptions{.in_features = 7,
                                          .hidden_features = 10,
                                          .out_features = 5,
                                          .split_rows = split_rows,
                                          .dropout = 0.3,
                                          .name = "pair",
                                          .tensor = precision.type},
                            grid, "tp");
            },
            [&](ColRow& layer, at::Tensor& x, int64_t batch) {
              const Split rows = Split::balanced(kPostponedRows, split_rows ? world.size() : 1, 0);
              x = input(world, precision, rows.size(split_rows ? world.rank() : 0), 7, batch);
              const ForwardPass pass{{.seed = 5, .number = batch, .training = true}, postponed_rows()};
              return recomputed(
                  [layer, pass](const std::vector<at::Tensor>& inputs) mutable { return layer(inputs[0], pass); }, {x});
            },
            {"row.bias"});
  });
}

TEST(PostponedGradients, of_an_embedding_and_its_scores_are_those_of_backward) {
  using Cut = ParallelEmbeddingOptions::Cut;
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const at::Tensor ids = at::arange(kPostponedRows) * 5 % 7;
    for (const Precision& precision : kPrecisions)
      for (const Cut cut : {Cut::hidden, Cut::vocabulary})
        for (const bool split_rows : {false, true})
          for (const bool is_tied : {false, true}) {
            if (is_tied && cut == Cut::hidden) continue;
            expect_same_bits(
                world, precision,
                [&](const Grid& grid) {
                  return ParallelEmbedding(ParallelEmbeddingOptions{.words = 7,
                                                                    .features = 6,
                                                                    .cut = cut,
                                                                    .split_rows = split_rows,
                                                                    .deviation = 1,
                                                                    .tensor = precision.type},
                                           grid, "tp");
                },
                [&](ParallelEmbedding& layer, at::Tensor&, int64_t batch) {
                  const at::Tensor vectors = layer((ids + batch) % 7);
                  return is_tied ? layer->scores(vectors, postponed_rows()) : vectors;
                });
          }
  });
}

TEST(PostponedGradients, are_those_of_torchs_linear) {
  std::vector<Precision> precisions = kPrecisions;
  precisions.push_back({at::kComplexDouble});
  for (const Precision& precision : precisions)
    for (const bool has_bias : {false, true})
      for (const std::vector<int64_t>& shape : {std::vector<int64_t>{26, 64}, {3, 5, 64}, {64}}) {
        const Communicator alone;
        const auto leaf = [&](at::IntArrayRef sizes, int64_t seed) {
          const at::Tensor real = random_tensor(sizes, Kind::replicated, alone, seed);
          const bool is_complex = at::isComplexType(precision.type);
          return (is_complex ? at::complex(real, real.flip(0)) : real.to(precision.type)).requires_grad_(true);
        };
        std::vector<std::vector<at::Tensor>> found;
        for (const bool is_torchs : {false, true}) {
          const at::Tensor x = leaf(shape, 1), weight = leaf({48, 64}, 2),
                           bias = has_bias ? leaf({48}, 3) : at::Tensor();
          const at::Tensor y = with_precision(
              precision, [&] { return is_torchs ? at::linear(x, weight, bias) : linear_product(x, weight, bias); });
          PostponedGradients postponed;
          postponed.collect([&] { y.backward(at::sin(y.detach())); });
          EXPECT_EQ(postponed.empty(), is_torchs);
          postponed.compute();
          found.push_back({y, x.grad(), weight.grad(), has_bias ? bias.grad() : y});
        }
        for (size_t i = 0; i < found[0].size(); ++i) EXPECT_TRUE(at::equal(found[0][i], found[1][i])) << i;
      }
}

TEST(LinearProduct, is_differentiable_twice_but_for_split_rows) {
  const Communicator alone;
  const at::Tensor weight = random_tensor({3, 4}, Kind::replicated, alone).requires_grad_(true);
  const at::Tensor x = random_tensor({5, 4}, Kind::replicated, alone, 1).requires_grad_(true);
  const auto penalty = [&](const std::function<at::Tensor()>& product) {
    const at::Tensor of_x =
        torch::autograd::grad({product().square().sum()}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
    return torch::autograd::grad({of_x.square().sum()}, {x, weight});
  };
  const auto found = penalty([&] { return linear_product(x, weight); });
  const auto expected = penalty([&] { return at::linear(x, weight); });
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-12, 1e-12));
  EXPECT_ANY_THROW(penalty([&] { return linear_product(x, weight, {}, SplitRows{alone, Split::balanced(5, 1, 0)}); }));
}

}  // namespace
}  // namespace adjoin::nn
