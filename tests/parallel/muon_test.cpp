#include "adjoin/parallel/muon.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <map>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/grouped_linear.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/sequence/self_attention.hpp"
#include "adjoin/nn/state.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

/// Muon on one worker, as its papers have it.
at::Tensor orthogonal(const at::Tensor& matrix) {
  at::Tensor x = matrix.size(0) > matrix.size(1) ? matrix.t() : matrix;
  x = x / (x.norm() + 1e-7);
  for (int step = 0; step < 5; ++step) {
    const at::Tensor s = x.mm(x.t());
    x = 3.4445 * x + (-4.7750 * s + 2.0315 * s.mm(s)).mm(x);
  }
  return matrix.size(0) > matrix.size(1) ? x.t() : x;
}

/// AdamW's or Muon's update of a whole tensor.
struct Oracle {
  at::Tensor value, first, second;
  std::vector<int64_t> matrices;

  void step(const at::Tensor& gradient, double rate, double decay, int number) {
    if (!first.defined()) first = at::zeros_like(value), second = at::zeros_like(value);
    value *= 1 - rate * (value.dim() > 1 ? decay : 0);
    if (matrices.empty()) {
      first = 0.9 * first + 0.1 * gradient;
      second = 0.999 * second + 0.001 * gradient * gradient;
      value -= rate * first / (1 - std::pow(0.9, number)) / ((second / (1 - std::pow(0.999, number))).sqrt() + 1e-8);
      return;
    }
    first = 0.95 * first + gradient;
    const at::Tensor direction = gradient + 0.95 * first;
    int64_t begin = 0;
    for (const int64_t rows : matrices) {
      const at::Tensor matrix = direction.narrow(0, begin, rows).flatten(1);
      const double larger = static_cast<double>(std::max(rows, matrix.size(1)));
      value.narrow(0, begin, rows) -=
          rate * 0.2 * std::sqrt(larger) * orthogonal(matrix).view_as(direction.narrow(0, begin, rows));
      begin += rows;
    }
  }
};

/// Weights that lie in all ways that layers know: cut by rows and by columns, stacked, of experts, convolutions, whole; large
/// enough to travel alone, or smaller than the number of ranks.
struct Matrices : nn::ShardedModule {
  Matrices(const Grid& grid, bool rows_are_split) {
    const int tp = grid.shape().axis_size("tp");
    const auto piece = [&](const char* name, Layout layout, std::vector<int64_t> matrices) {
      register_piece(name, {std::move(layout), grid, nn::Initial::normal(1), std::move(matrices)}, at::kDouble);
    };
    const auto cut = [&](std::vector<int64_t> shape, int64_t dim) {
      const int64_t size = shape[static_cast<size_t>(dim)];
      return nn::layout_cut_along(grid, "tp", std::move(shape), Split::balanced(size, tp, dim));
    };
    piece("bias", cut({7}, 0), {});
    piece("rows", cut({7, 5}, 0), {7});
    piece("columns", cut({9, 5}, 1), {9});
    piece("large", cut({301, 223}, 0), {301});
    piece("table", cut({11, 5}, 1), {});
    piece("one_row", nn::layout_cut_along(grid, "tp", {1, 6}), {1});
    const Split a = Split::balanced(5, tp, 0), b = Split::balanced(3, tp, 0);
    piece("stacked", nn::layout_cut_along(grid, "tp", {11, 4}, nn::stacked({a, b, b})), {5, 3, 3});
    piece("convolution", cut({6, 3, 2, 2}, 1), {6});
    piece("whole", nn::layout_cut_along(grid, "tp", {4, 6}), {4});
    if (rows_are_split) piece("summed", nn::layout_copied_on(grid.shape(), {5, 6}), {5});
    nn::GroupedLinearOptions experts{.groups = 5, .in_features = 3, .out_features = 4, .groups_axis = "dp"};
    experts.tensor = at::kDouble;
    experts.matrices = {1, 3};
    register_module("experts", nn::GroupedLinear(experts, grid, "tp"));
    nn::initialize(*this, 5);
  }
};

/// A gradient for each piece, so that their sums over copies are those of `global`, on rank 0.
void set_gradients(const std::vector<nn::Parameter>& parameters, const nn::State& global, double scale) {
  std::vector<nn::Parameter> gradients = nn::cloned(parameters);
  nn::scatter_state(global, gradients);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto copies = static_cast<double>(nn::ranks_of_copies(parameters[i]).size());
    const at::Tensor tensor = parameters[i].tensor;
    tensor.mutable_grad() = gradients[i].tensor.detach() * (scale / copies);
  }
}

nn::State random_gradients(const nn::State& of, int64_t step) {
  nn::State gradients;
  int64_t number = 100 * step;
  for (const auto& [name, tensor] : of)
    gradients[name] = random_tensor(tensor.sizes().vec(), Kind::replicated, Communicator(), ++number).to(at::kDouble);
  return gradients;
}

TEST(Muon, is_that_of_one_worker_however_matrices_lie) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (int tp = 1; tp <= world.size(); ++tp) {
      if (world.size() % tp != 0) continue;
      for (const bool rows_are_split : {false, true}) {
        const Grid grid(world, {{"dp", world.size() / tp}, {"tp", tp}});
        Matrices weights(grid, rows_are_split);
        const std::vector<nn::Parameter> parameters = nn::parameters_of(weights);
        Optimizer optimizer(parameters, muon(), {.weight_decay = 0.1, .clip = 3});
        std::map<std::string, Oracle> expected;
        const nn::State before = nn::gather_state(parameters);
        for (const nn::Parameter& p : parameters)
          if (world.rank() == 0) expected[p.name] = {before.at(p.name).clone(), {}, {}, p.matrices};
        for (int step = 1; step <= 4; ++step) {
          const nn::State gradients = random_gradients(before, step);
          const double scale = step % 2 == 0 ? 1 : 1024;
          set_gradients(parameters, gradients, scale);
          const Update update = optimizer.step(0.02, scale);
          for (auto& [name, oracle] : expected) oracle.step(gradients.at(name) * (3 / update.norm), 0.02, 0.1, step);
        }
        const nn::State after = nn::gather_state(parameters);
        for (const auto& [name, oracle] : expected)
          EXPECT_TRUE(at::allclose(after.at(name), oracle.value, 1e-11, 1e-12))
              << name << " on " << grid.shape().to_string();
      }
    }
  });
}

TEST(Muon, moves_nothing_by_a_gradient_of_zeros) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"dp", world.size()}});
    torch::nn::Linear layer(6, 4);
    layer->to(at::kDouble);
    const at::NoGradGuard no_gradient;
    layer->weight.fill_(1.5);
    layer->bias.fill_(1);
    for (const auto& rule : {muon(), muon({.type = at::kBFloat16})}) {
      Optimizer optimizer(nn::parameters_of(*layer, grid), rule);
      layer->weight.mutable_grad() = at::zeros_like(layer->weight);
      EXPECT_FALSE(optimizer.step(0.1).skipped);
      EXPECT_TRUE(layer->weight.equal(at::full_like(layer->weight, 1.5)));
    }
  });
}

TEST(Muon, makes_singular_values_of_about_the_size_of_adamws_updates) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const auto& [rows, columns] : {std::pair(40, 24), std::pair(24, 40)}) {
      torch::nn::Linear layer(torch::nn::LinearOptions(columns, rows).bias(false));
      const at::NoGradGuard no_gradient;
      layer->weight.zero_();
      Optimizer optimizer(nn::parameters_of(*layer, Grid(Communicator(), {{"dp", 1}})), muon({.type = type}));
      layer->weight.mutable_grad() = random_tensor({rows, columns}, Kind::replicated, Communicator()).to(at::kFloat);
      optimizer.step(1);
      const at::Tensor values = std::get<1>(at::linalg_svd(layer->weight)) / (0.2 * std::sqrt(40.0));
      EXPECT_GT(values.min().item<double>(), 0.5) << rows << " x " << columns;
      EXPECT_LT(values.max().item<double>(), 1.3) << rows << " x " << columns;
    }
}

/// What each rank has to solve, in a step of matrices like those of two blocks.
TEST(Muon, divides_the_work_among_ranks_with_copies_and_with_pieces) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (int tp = 1; tp <= world.size(); ++tp) {
      if (world.size() % tp != 0) continue;
      struct Matrices : nn::ShardedModule {
        explicit Matrices(const Grid& grid) {
          const int tp = grid.shape().axis_size("tp");
          for (int block = 0; block < 2; ++block)
            for (const auto& [rows, columns] :
                 {std::pair(48, 16), std::pair(16, 16), std::pair(64, 16), std::pair(16, 64)})
              register_piece(
                  std::to_string(block) + std::to_string(rows) + std::to_string(columns),
                  {nn::layout_cut_along(grid, "tp", {rows, columns}, Split::balanced(rows, tp, 0)), grid,
                   nn::Initial::ones(), rows == 48 ? std::vector<int64_t>{16, 16, 16} : std::vector<int64_t>{rows}},
                  at::kFloat);
          nn::initialize(*this, 1);
        }
      } matrices(Grid(world, {{"dp", world.size() / tp}, {"tp", tp}}));
      Rule rule = muon();
      double mine = 0;
      rule.of_matrices->solve = [&mine, cost = rule.of_matrices->cost](const at::Tensor& m, const at::Tensor&) {
        mine += cost(m.size(0), m.size(1));
      };
      Optimizer(nn::parameters_of(matrices), rule).step(0.1);
      double all = mine, most = mine;
      world.all_reduce(buffer(all));
      world.all_reduce(buffer(most), Reduction::max);
      const double square = 6 * 16 * 16 * 16, wide = 4 * 16 * 16 * 64 + 2 * 16 * 16 * 16;
      EXPECT_EQ(all, 8 * square + 4 * wide);
      EXPECT_LE(most, 1.1 * all / world.size()) << "tp " << tp;
    }
  });
}

/// Counts the messages that a rank sends.
struct Sent : Observer {
  void begin(const Call& call) override {
    for (const Message& message : call.messages) count += message.is_send();
  }
  int count = 0;
};

TEST(Muon, leaves_experts_on_the_ranks_that_have_them) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const auto sent = std::make_shared<Sent>();
    const Grid grid(world.observed_by(sent), {{"ep", world.size()}, {"tp", 1}});
    const nn::GroupedLinear experts(
        nn::GroupedLinearOptions{.groups = 12, .in_features = 6, .out_features = 4, .groups_axis = "ep"}, grid, "tp");
    nn::initialize(*experts, 1);
    Optimizer optimizer(nn::parameters_of(*experts), muon());
    for (const at::Tensor& weight : experts->parameters()) weight.mutable_grad() = at::ones_like(weight);
    sent->count = 0;
    optimizer.step(0.1);
    EXPECT_EQ(sent->count, 0);
  });
}

TEST(Muon, keeps_one_moment_of_a_matrix_and_those_of_adamw_of_others) {
  torch::nn::Linear layer(6, 4);
  const Optimizer optimizer(nn::parameters_of(*layer, Grid(Communicator(), {{"dp", 1}})), muon());
  std::vector<std::string> names;
  for (const nn::Parameter& moment : optimizer.moments()) names.push_back(moment.name);
  EXPECT_EQ(names, (std::vector<std::string>{"momentum.weight", "first.bias", "second.bias"}));
  EXPECT_EQ(optimizer.moment_bytes(), 4 * (24 + 2 * 4));
}

TEST(Muon, refuses_a_model_without_matrices_and_matrices_of_other_sizes) {
  const Grid grid(Communicator(), {{"dp", 1}});
  torch::nn::Embedding table(6, 4);
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { Optimizer(nn::parameters_of(*table, grid), muon()); }),
            "Optimizer: the rule muon is for matrices, and no trained parameter is one");
  std::vector<nn::Parameter> parameters = nn::parameters_of(*table, grid);
  parameters[0].matrices = {2, 3};
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { Optimizer(parameters, muon()); }),
            "the matrices of 'weight' have 5 rows, expected those of a tensor of shape [6, 4]");
  EXPECT_EQ(thrown_by<InvalidArgument>([] { muon({.momentum = 1}); }),
            "muon: expected a momentum in [0, 1), got 1.000000");
}

/// Of each parameter that has some.
std::map<std::string, std::vector<int64_t>> matrices_of(const torch::nn::Module& module, const Grid& grid) {
  std::map<std::string, std::vector<int64_t>> all;
  for (const nn::Parameter& parameter : nn::parameters_of(module, grid))
    if (!parameter.matrices.empty()) all[parameter.name] = parameter.matrices;
  return all;
}

TEST(Matrices, are_the_weights_of_linear_layers_and_convolutions) {
  using Found = std::map<std::string, std::vector<int64_t>>;
  const Grid grid(Communicator(), {{"tp", 1}});
  const torch::nn::Sequential plain(torch::nn::Embedding(9, 4), torch::nn::Conv2d(2, 4, 3), torch::nn::Linear(4, 6),
                                    torch::nn::LayerNorm(torch::nn::LayerNormOptions({6, 2})));
  EXPECT_EQ(matrices_of(*plain, grid), (Found{{"1.weight", {4}}, {"2.weight", {6}}}));
  const nn::ParallelSelfAttention attention(nn::SelfAttentionOptions{.hidden = 8, .heads = 4, .key_heads = 2}, grid,
                                            "tp");
  EXPECT_EQ(matrices_of(*attention, grid), (Found{{"qkv.weight", {8, 4, 4}}, {"out.weight", {8}}}));
  nn::ColRowOptions options{.in_features = 4, .hidden_features = 6, .out_features = 5};
  EXPECT_EQ(matrices_of(*nn::ColRow(options, grid, "tp"), grid), (Found{{"column.weight", {6}}, {"row.weight", {5}}}));
  options.activation = nn::Activation::swiglu;
  options.is_head = true;
  EXPECT_EQ(matrices_of(*nn::ColRow(options, grid, "tp"), grid), (Found{{"column.weight", {6, 6}}}));
}

}  // namespace
}  // namespace adjoin::parallel
