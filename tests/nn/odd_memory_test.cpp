// Functions of tensors whose memory is not what their values are.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <span>

#include "adjoin/base/error.hpp"
#include "adjoin/linalg/matmul.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/cross_entropy.hpp"
#include "adjoin/nn/distributed/interpolation.hpp"
#include "adjoin/nn/dropout.hpp"
#include "adjoin/nn/embedding.hpp"
#include "adjoin/nn/expert_tokens.hpp"
#include "adjoin/nn/fill.hpp"
#include "adjoin/nn/grouped_linear.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/mixture_of_experts.hpp"
#include "adjoin/nn/positions.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/forward_mode.hpp"
#include "tests/support/odd_memory.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;
using Tensors = std::vector<at::Tensor>;

struct Case {
  const char* name;
  Tensors inputs;  // of which the floating-point ones have gradients
  std::function<at::Tensor(const Tensors&)> function;
};

std::vector<Case> cases_of(Numbers& draw, const Communicator& world) {
  const auto random = [&](at::IntArrayRef shape, Kind kind = Kind::replicated) {
    return random_tensor(shape, kind, world, draw.from(1, 1000));
  };
  const int64_t rows = draw.from(0, 5), features = 4;
  const ForwardPass pass{{.seed = 5, .number = 3, .training = true}};
  const DropoutPlace place{"layer", 0};
  const at::Tensor tokens = at::arange(rows, at::kLong), words = at::arange(rows, at::kLong).remainder(3);
  const Split split = random_split(draw.seed(), rows + 2, world.size(), 0);
  const int64_t mine = split.size(world.rank());
  const Split of_words = Split::balanced(6, world.size(), 0);
  std::vector<Case> cases{
      {"rotary",
       {random({rows, 2, features})},
       [=](const Tensors& x) { return rotary(x[0], tokens, RotaryOptions{}); }},
      {"dropout", {random({rows, features})}, [=](const Tensors& x) { return dropout(x[0], 0.3, place, pass); }},
      {"add_dropped",
       {random({rows, features}), random({rows, features})},
       [=](const Tensors& x) { return add_dropped(x[0], x[1], 0.3, place, pass); }},
      {"interpolation",
       {random({rows, 5, features})},
       [](const Tensors& x) {
         const Taps first{.index = {{0, 2, 3}, {1, 3, 4}}, .weight = {{1, 2, 3}, {4, 5, 6}}};
         const Taps second{.index = {{0, 3}}, .weight = {}};
         return Interpolation(std::vector<Taps>{first, second})(x[0]);
       }},
      {"cross_entropy", {random({rows, features}), words}, [](const Tensors& x) { return cross_entropy(x[0], x[1]); }},
      {"vocabulary_parallel_cross_entropy",
       {random({rows, of_words.size(world.rank())}, Kind::split), words},
       [=](const Tensors& x) { return vocabulary_parallel_cross_entropy(x[0], x[1], world, of_words); }},
      {"linear_product",
       {random({rows, features}), random({3, features}), random({3})},
       [](const Tensors& x) { return linear_product(x[0], x[1], x[2]); }},
      {"grouped_product",
       {random({rows + 1, features}), random({6, features})},
       [=](const Tensors& x) {
         return grouped_product(x[0], x[1], {rows, 1});
       }},
      {"embedding",
       {words, random({3, features}, Kind::split)},
       [=](const Tensors& x) {
         const Split cut = Split::balanced(features * world.size(), world.size(), 0);
         return hidden_parallel_embedding(x[0], x[1], world, cut);
       }},
      {"matmul_nt",
       {random({mine, features}, Kind::split), random({mine, features}, Kind::split)},
       [=](const Tensors& x) { return linalg::matmul_nt(x[0], x[1], world, split); }},
      {"matmul_nn",
       {random({mine, split.size()}, Kind::split), random({mine, features}, Kind::split)},
       [=](const Tensors& x) { return linalg::matmul_nn(x[0], x[1], world, split); }},
      {"matmul_tn",
       {random({mine, split.size()}, Kind::split), random({mine, features}, Kind::split)},
       [=](const Tensors& x) { return linalg::matmul_tn(x[0], x[1], world, split); }},
  };
  const TokenRows lengths = TokenRows::balanced({draw.from(1, 6), draw.from(0, 3)}, world.size());
  const int64_t here = lengths.size(world.rank());
  for (const auto method : {AttentionMethod::ring, AttentionMethod::gathered, AttentionMethod::ulysses})
    for (const double p : {0.0, 0.25})
      cases.push_back({"attention",
                       {random({here, 4, features}, Kind::split), random({here, 2, features}, Kind::split),
                        random({here, 2, features}, Kind::split)},
                       [=](const Tensors& x) {
                         return attention(x[0], x[1], x[2], lengths, world,
                                          {.method = method, .dropout = p, .name = "a", .step = pass.step});
                       }});
  return cases;
}

/// The result, and the gradients of the inputs that have one.
Tensors results_of(const Case& one, const std::function<at::Tensor(const at::Tensor&)>& form) {
  Tensors inputs, leaves, results;
  for (const at::Tensor& x : one.inputs) {
    inputs.push_back(form(x).detach());
    if (x.is_floating_point()) leaves.push_back(inputs.back().requires_grad_(true));
  }
  results.push_back(one.function(inputs));
  const at::Tensor weights = at::arange(results[0].numel(), results[0].options()).add(1).cos().view(results[0].sizes());
  for (const at::Tensor& g : torch::autograd::grad({results[0]}, leaves, {form(weights.detach())}))
    results.push_back(g);
  return results;
}

TEST(OddMemory, gives_the_results_and_gradients_of_any_other) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for (uint64_t seed = 0; seed < 5 * static_cast<uint64_t>(test::scale()); ++seed) {
      Numbers draw(seed), odd(100 * seed + static_cast<uint64_t>(world.rank()));
      for (const Case& one : cases_of(draw, world)) {
        const Tensors expected = results_of(one, [](const at::Tensor& x) { return x; });
        const Tensors found = results_of(one, [&](const at::Tensor& x) { return in_odd_memory(x, odd); });
        for (size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-11, 1e-11)) << one.name << ", " << i << ", seed " << seed;
      }
    }
  });
}

TEST(ForwardMode, is_carried_or_refused_in_one_line) {
  const ForwardMode mode;
  Numbers draw(1);
  std::vector<Case> cases = cases_of(draw, Communicator());
  const Grid grid(Communicator(), {{"one", 1}});
  const MixtureOfExpertsOptions options{.features = 4, .hidden_features = 2, .experts = 2, .tensor = at::kDouble};
  MixtureOfExperts experts(options, grid, "one");
  initialize(*experts, 1);
  cases.push_back({"MixtureOfExperts", {at::ones({3, 4}, at::kDouble)}, [&](const Tensors& x) {
                     return experts(x[0], ForwardPass{});
                   }});
  for (const Case& one : cases) {
    Tensors inputs = one.inputs;
    for (at::Tensor& x : inputs)
      if (x.is_floating_point()) x = with_tangent(x, at::ones_like(x));
    bool is_carried = false;
    const std::string said =
        thrown_by<InvalidArgument>([&] { is_carried = tangent_of(one.function(inputs)).defined(); });
    if (!is_carried) EXPECT_EQ(said, std::string(one.name) + ": derivatives in forward mode are not supported");
  }
}

TEST(OddMemory, that_nobody_can_read_is_refused_in_one_line_by_loops_of_our_own) {
  const ForwardPass pass{{.seed = 5, .training = true}};
  for (const auto& [text, x] : without_plain_memory(at::ones({3, 2, 4}))) {
    const auto expect_refused = [&, text = text](const std::function<void()>& call, const std::string& name) {
      try {
        call();
        ADD_FAILURE() << name << " took " << text;
      } catch (const InvalidArgument& error) {
        EXPECT_EQ(error.what(), name + ": expected a dense tensor on the CPU, got " + text);
      }
    };
    expect_refused([&, x = x] { rotary(x, at::arange(3, at::kLong), RotaryOptions{}); }, "rotary");
    expect_refused([&, x = x] { dropout_rows(x, 0.5, [](int64_t) { return MaskRow{}; }); }, "dropout");
    expect_refused(
        [&, x = x] {
          Interpolation(std::vector<Taps>{Taps{.index = {{0, 1}}, .weight = {}}})(x);
        },
        "interpolation");
    expect_refused(
        [&, x = x] {
          fill_piece(x, Layout(GridShape({{"one", 1}}), {3, 2, 4}), 0, [](std::span<double>, int64_t) {});
        },
        "initialize");
  }
}

TEST(ExpertTokens, are_those_of_any_memory) {
  Numbers odd(1);
  const at::Tensor chosen = at::tensor({2, 0, 1, 2, 0, 2}, at::kLong).view({3, 2}), x = at::arange(6.).view({3, 2});
  const Split experts = Split::balanced(3, 1, 0);
  const at::Tensor expected = ExpertTokens(chosen, experts, Communicator()).to_experts(x);
  for (int trial = 0; trial < 8; ++trial)
    EXPECT_TRUE(ExpertTokens(in_odd_memory(chosen, odd), experts, Communicator())
                    .to_experts(in_odd_memory(x, odd))
                    .equal(expected));
}

TEST(ExpertTokens, refuse_an_expert_that_nobody_has) {
  for (const int64_t wrong : {-1, 3}) {
    const at::Tensor chosen = at::tensor(std::vector<int64_t>{2, 0, wrong, 1}, at::kLong).view({2, 2});
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { ExpertTokens(chosen, Split::balanced(3, 1, 0), Communicator()); }),
              "ExpertTokens: rank 0: expected experts from 0 to 2, got " + std::to_string(wrong));
  }
}

TEST(Fill, reaches_a_piece_in_any_memory) {
  const Layout layout(GridShape({{"one", 1}}), {3, 4});
  const auto count = [](std::span<double> numbers, int64_t first) {
    for (double& number : numbers) number = static_cast<double>(first++);
  };
  Numbers odd(1);
  for (int trial = 0; trial < 8; ++trial) {
    const at::Tensor piece = in_odd_memory(at::zeros({3, 4}, at::kDouble), odd);
    fill_piece(piece, layout, 0, count);
    EXPECT_TRUE(piece.equal(at::arange(12, at::kDouble).view({3, 4})));
  }
}

}  // namespace
}  // namespace adjoin::nn
