#include "adjoin/nn/mixture_of_experts.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

constexpr int64_t kFeatures = 6;

MixtureOfExpertsOptions options_of(int64_t experts, int64_t top_k, Activation activation = Activation::swiglu) {
  return {.features = kFeatures,
          .hidden_features = 5,
          .activation = activation,
          .experts = experts,
          .top_k = top_k,
          .balance_loss = 0.3,
          .z_loss = 0.02,
          .tensor = at::kDouble};
}

/// What all experts make of all rows, each by LibTorch, of which a row gets its own by a mask; and the losses, by their formulas.
struct Dense {
  at::Tensor y, losses, rows;
};

Dense dense(const at::Tensor& x, const std::map<std::string, at::Tensor>& weights, const MixtureOfExpertsOptions& o,
            const std::vector<int64_t>& lengths, const Step& step) {
  const at::Tensor scores = at::linear(x, weights.at("router.weight"));
  const at::Tensor probabilities = at::softmax(scores, 1);
  const at::Tensor mask = at::zeros_like(scores);
  for (int64_t row = 0; row < x.size(0); ++row) {
    std::vector<int64_t> order(static_cast<size_t>(o.experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return scores[row][a].item<double>() > scores[row][b].item<double>();
    });
    for (int64_t j = 0; j < o.top_k; ++j) mask[row][order[static_cast<size_t>(j)]] = 1;
  }
  const at::Tensor chosen = probabilities * mask;
  const at::Tensor gates = o.normalises_gates ? chosen / chosen.sum(1, true) : chosen;
  const at::Tensor column = weights.at("column.weight").view({o.experts, -1, o.features});
  const at::Tensor row = weights.at("row.weight").view({o.experts, o.features, -1});
  at::Tensor y = at::zeros_like(x);
  for (int64_t expert = 0; expert < o.experts; ++expert)
    y = y + at::linear(activated(at::linear(x, column[expert]), o.activation), row[expert]) *
                gates.select(1, expert).unsqueeze(1);
  at::Tensor losses = at::zeros({}, x.options());
  int64_t first = 0;
  for (const int64_t length : lengths) {
    if (length == 0) continue;
    const at::Tensor parts = mask.narrow(0, first, length).sum(0) / static_cast<double>(length * o.top_k);
    const at::Tensor balance =
        (parts * probabilities.narrow(0, first, length).mean(0)).sum() * static_cast<double>(o.experts);
    const at::Tensor z = scores.narrow(0, first, length).logsumexp(1).square().mean();
    losses = losses + (balance * o.balance_loss + z * o.z_loss) *
                          (step.loss_share * static_cast<double>(step.loss_share_is_per_token ? length : 1));
    first += length;
  }
  return {y, losses, mask.sum(0)};
}

/// Samples of which the data-parallel ranks have some each, or none, and the context-parallel ranks rows of each.
const std::vector<int64_t> kLengths{5, 1, 0, 7, 3};

/// Compares a layer on a grid {dp, ep, cp, tp} with the dense one: output, gradients of the input and of all weights.
void expect_as_dense(const Communicator& world, const std::vector<int>& sizes, MixtureOfExpertsOptions o,
                     bool loss_share_is_per_token) {
  const Grid grid(world, {{"dp", sizes[0]}, {"ep", sizes[1]}, {"cp", sizes[2]}, {"tp", sizes[3]}});
  const MixtureOfExpertsOptions whole_options = o;
  o.experts_axis = "ep";
  o.samples_axis = "cp";
  MixtureOfExperts layer(o, grid, "tp");
  initialize(*layer, 11);
  const Step step{.training = true, .loss_share = 0.7, .loss_share_is_per_token = loss_share_is_per_token};

  std::map<std::string, at::Tensor> weights = global_tensors(*layer, false);
  for (auto& [name, weight] : weights) weight = weight.clone().requires_grad_(true);
  const int64_t rows = std::accumulate(kLengths.begin(), kLengths.end(), int64_t{0});
  const at::Tensor all = random_tensor({rows, kFeatures}, Kind::replicated, world).requires_grad_(true);
  const at::Tensor of_y = random_tensor({rows, kFeatures}, Kind::replicated, world, 7);
  const Dense expected = dense(all, weights, whole_options, kLengths, step);
  ((expected.y * of_y).sum() + expected.losses).backward();

  // The samples of this rank's part of the batch, and its rows of them.
  const Communicator& batch = grid.group({"dp", "ep"});
  const Split samples = Split::balanced(std::ssize(kLengths), batch.size(), 0);
  const int64_t begin = samples.offset(batch.rank()), end = samples.offset(batch.rank() + 1);
  const std::vector<int64_t> lengths(kLengths.begin() + begin, kLengths.begin() + end);
  const LocalTokenRows here(TokenRows::zigzag(lengths, sizes[2]), grid.coordinate("cp"));
  const int64_t first = std::accumulate(kLengths.begin(), kLengths.begin() + begin, int64_t{0});
  const Split split = Split::balanced(here.size(), sizes[3], 0);
  const auto mine = [&](const at::Tensor& global) {
    const at::Tensor of_cp =
        take_block(global.detach().narrow(0, first, here.all().size()), here.all().split(), grid.coordinate("cp"));
    return (o.split_rows ? take_block(of_cp, split, grid.coordinate("tp")) : of_cp).clone();
  };
  const at::Tensor x = mine(all).requires_grad_(true);
  const ExpertLoads loads;
  const at::Tensor y = layer(x, ForwardPass{step, here});
  EXPECT_TRUE(at::allclose(y, mine(expected.y), 1e-12, 1e-13)) << "output";
  std::vector<KnownTensor> known = known_tensors(parameters_of(*layer));
  const Kind along_tp = o.split_rows ? Kind::split : Kind::replicated;
  std::map<std::string, Kind> kinds{{"dp", Kind::split}, {"ep", Kind::split}, {"cp", Kind::split}, {"tp", along_tp}};
  known.push_back({"input", x, kinds});
  const at::Tensor sum = (y * mine(of_y)).sum();
  check_gradients(sum, known, {}, grid, {{"tp", o.split_rows ? Kind::partial : Kind::replicated}});
  sum.backward();
  EXPECT_TRUE(at::allclose(x.grad(), mine(all.grad()), 1e-12, 1e-13)) << "gradient of the input";
  parallel::sum_gradients(*layer);
  for (const auto& [name, gradient] : global_tensors(*layer, true))
    EXPECT_TRUE(at::allclose(gradient, weights.at(name).grad(), 1e-12, 1e-13)) << "gradient of " << name;

  std::vector<double> counted = loads.rows;
  counted.resize(static_cast<size_t>(o.experts));
  world.all_reduce(buffer(counted));
  EXPECT_TRUE(at::tensor(counted, at::kDouble).equal(expected.rows)) << expected.rows;
}

TEST(MixtureOfExperts, on_every_grid_is_the_dense_layer) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const int ranks = world.size();
    Numbers draw(static_cast<uint64_t>(ranks));
    for (int tp = 1; tp <= ranks; ++tp)
      for (int cp = 1; cp <= ranks / tp; ++cp)
        for (int ep = 1; ep <= ranks / tp / cp; ++ep) {
          if (ranks % (tp * cp * ep) != 0) continue;
          for (const bool split_rows : {false, true}) {
            if (split_rows && tp == 1) continue;
            MixtureOfExpertsOptions o = options_of(draw.from(std::max(ep, 2), 5), 1);
            o.top_k = draw.from(1, o.experts);
            o.split_rows = split_rows;
            o.normalises_gates = !draw.one_in(3);
            if (draw.one_in(2)) o.activation = Activation::gelu;
            SCOPED_TRACE("ep " + std::to_string(ep) + ", cp " + std::to_string(cp) + ", tp " + std::to_string(tp) +
                         (split_rows ? ", split rows" : "") + ", " + std::to_string(o.top_k) + " of " +
                         std::to_string(o.experts) + " experts");
            expect_as_dense(world, {ranks / (tp * cp * ep), ep, cp, tp}, o, draw.one_in(2));
          }
        }
  });
}

TEST(MixtureOfExperts, of_one_expert_is_a_feed_forward_layer) {
  for_each_world({1, 2}, [](const Communicator& world) {
    MixtureOfExperts layer(options_of(1, 1), on_tp(world), "tp");
    ColRow plain(ColRowOptions{.in_features = kFeatures,
                               .hidden_features = 5,
                               .out_features = kFeatures,
                               .bias = false,
                               .activation = Activation::swiglu,
                               .tensor = at::kDouble},
                 on_tp(world), "tp");
    initialize(*layer, 3);
    initialize(*plain, 3);
    const at::Tensor x = random_tensor({9, kFeatures}, Kind::replicated, world);
    EXPECT_TRUE(at::allclose(layer(x, ForwardPass{}), plain(x, ForwardPass{}), 1e-13, 1e-14));
  });
}

/// The rows that each of some experts gets where the router is as given.
std::vector<double> rows_by(const at::Tensor& router, int64_t rows, int64_t top_k) {
  MixtureOfExpertsOptions o = options_of(router.size(0), top_k);
  o.features = router.size(1);
  o.tensor = router.scalar_type();
  MixtureOfExperts layer(o, one_worker(), "tp");
  initialize(*layer, 3);
  const at::NoGradGuard no_gradient;
  layer->named_parameters()["router.weight"].copy_(router);
  const ExpertLoads loads;
  layer(random_tensor({rows, router.size(1)}, Kind::replicated, Communicator()).to(router.scalar_type()),
        ForwardPass{});
  return loads.rows;
}

TEST(MixtureOfExperts, gives_rows_with_equal_scores_to_the_lower_experts) {
  EXPECT_EQ(rows_by(at::zeros({4, 3}, at::kDouble), 7, 2), (std::vector<double>{7, 7, 0, 0}));
  for (const at::ScalarType type : {at::kDouble, at::kFloat})
    for (const int64_t features : {3, 17, 64, 256})
      for (const int64_t experts : {2, 3, 8, 9, 33})
        for (const int64_t rows : {1, 2, 7, 130}) {
          const at::Tensor one = random_tensor({1, features}, Kind::replicated, Communicator(), experts).to(type);
          std::vector<double> expected(static_cast<size_t>(experts));
          expected[0] = static_cast<double>(rows);
          EXPECT_EQ(rows_by(one.repeat({experts, 1}), rows, 1), expected)
              << features << " features, " << rows << " rows, " << type;
        }
}

TEST(MixtureOfExperts, gives_rows_whose_scores_cancel_to_nothing_to_the_lower_experts) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat})
    for (const int64_t features : {24, 250}) {
      MixtureOfExpertsOptions o = options_of(6, 2);
      o.features = features;
      o.tensor = type;
      MixtureOfExperts layer(o, one_worker(), "tp");
      initialize(*layer, 3);
      const at::NoGradGuard no_gradient;
      layer->named_parameters()["router.weight"].fill_(0.3);
      const at::Tensor any = random_tensor({40, features}, Kind::replicated, Communicator());
      const ExpertLoads loads;
      layer((any - any.mean(1, true)).to(type), ForwardPass{});
      EXPECT_EQ(loads.rows, (std::vector<double>{40, 40, 0, 0, 0, 0})) << features << " features, " << type;
    }
}

TEST(MixtureOfExperts, goes_on_with_scores_that_are_no_numbers) {
  const std::vector<double> rows = rows_by(at::full({3, 4}, std::nan(""), at::kDouble), 5, 2);
  EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), 0.0), 10);
}

TEST(MixtureOfExperts, refuses_sizes_that_cannot_be) {
  const auto made = [](const MixtureOfExpertsOptions& o) { MixtureOfExperts(o, one_worker(), "tp"); };
  EXPECT_THROW(made(options_of(2, 3)), InvalidArgument);
  EXPECT_THROW(made(options_of(2, 0)), InvalidArgument);
  EXPECT_THROW(made(options_of(0, 1)), InvalidArgument);
  launch_threads(2, [](const Communicator& world) {
    MixtureOfExpertsOptions o = options_of(1, 1);
    o.experts_axis = "ep";
    EXPECT_THROW(MixtureOfExperts(o, Grid(world, {{"ep", 2}, {"tp", 1}}), "tp"), InvalidArgument);
  });
}

TEST(ExpertTokens, go_to_their_experts_and_back) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    Numbers draw(static_cast<uint64_t>(world.rank()));
    for (const int64_t experts : {4, 7})
      for (const int64_t top_k : {1, 3}) {
        const int64_t rows = draw.from(0, 6);
        const at::Tensor chosen = at::empty({rows, top_k}, at::kLong);
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t first = draw.from(0, experts - 1);
          for (int64_t j = 0; j < top_k; ++j) chosen[row][j] = (first + j * 2) % experts;
        }
        const ExpertTokens way(chosen, Split::balanced(experts, world.size(), 0), world);
        const int64_t here = std::accumulate(way.received().begin(), way.received().end(), int64_t{0});
        expect_adjoint([&](const at::Tensor& x) { return way.to_experts(x); }, Kind::split, Kind::split, {rows, 2},
                       world);
        expect_adjoint([&](const at::Tensor& x) { return way.from_experts(x); }, Kind::split, Kind::split, {here, 2},
                       world);
        const at::Tensor x = random_tensor({rows, 2}, Kind::split, world);
        EXPECT_TRUE(way.from_experts(way.to_experts(x)).equal(x.unsqueeze(1).expand({rows, top_k, 2})));
        // Each row carries its expert: what an expert got is its own.
        const at::Tensor pairs = chosen.to(at::kDouble);
        if (top_k > 1) continue;
        const at::Tensor got = way.to_experts(pairs);
        int64_t row = 0;
        for (size_t i = 0; i < way.received().size(); ++i)
          for (int64_t n = 0; n < way.received()[i]; ++n, ++row)
            EXPECT_EQ(got[row].item<int64_t>(),
                      Split::balanced(experts, world.size(), 0).offset(world.rank()) + static_cast<int64_t>(i));
      }
  });
}

TEST(ExpertTokens, may_be_assumed_to_go_elsewhere) {
  const Split experts = Split::balanced(6, 3, 0);
  const at::Tensor chosen = at::zeros({6, 2}, at::kLong);
  const auto counts = [&](AssumedExperts::Spread rows, const at::Tensor& given) {
    const AssumedExperts assumed(rows, /*alone=*/true);
    return at::bincount(AssumedExperts::in_place_of(given, experts, 1).flatten(), {}, 6);
  };
  EXPECT_TRUE(counts(AssumedExperts::Spread::even, chosen).equal(at::full({6}, 2, at::kLong)));
  EXPECT_TRUE(counts(AssumedExperts::Spread::here, chosen).equal(at::tensor({0, 0, 6, 6, 0, 0}, at::kLong)));
  EXPECT_TRUE(counts(AssumedExperts::Spread::here, at::zeros({6, 3}, at::kLong))
                  .equal(at::tensor({0, 0, 6, 6, 6, 0}, at::kLong)))
      << "all that those of this rank can have";
  EXPECT_TRUE(AssumedExperts::in_place_of(chosen, experts, 1).equal(chosen));
}

TEST(GroupedProduct, is_each_groups_own_product) {
  const Communicator alone;
  const std::vector<int64_t> rows_of{3, 0, 2};
  const at::Tensor x = random_tensor({5, 4}, Kind::replicated, alone).requires_grad_(true);
  const at::Tensor weight = random_tensor({9, 4}, Kind::replicated, alone, 1).requires_grad_(true);
  const at::Tensor of_y = random_tensor({5, 3}, Kind::replicated, alone, 2);
  const auto by_group = [&] {
    return at::cat(
        {at::linear(x.narrow(0, 0, 3), weight.narrow(0, 0, 3)), at::linear(x.narrow(0, 3, 2), weight.narrow(0, 6, 3))});
  };
  const auto gradients = [&](const at::Tensor& y) { return torch::autograd::grad({(y * of_y).sum()}, {x, weight}); };
  EXPECT_TRUE(at::allclose(grouped_product(x, weight, rows_of), by_group(), 1e-13, 1e-14));
  const auto found = gradients(grouped_product(x, weight, rows_of)), expected = gradients(by_group());
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-13, 1e-14)) << i;
  EXPECT_THROW(grouped_product(x, weight, {3, 1, 2}), InvalidArgument);
  EXPECT_THROW(grouped_product(x, weight, {5, 0}), InvalidArgument);
  EXPECT_THROW(grouped_product(x, weight, {}), InvalidArgument);
}

}  // namespace
}  // namespace adjoin::nn
