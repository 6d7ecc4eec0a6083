#include "adjoin/nn/distributed/dropout.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/nn/dropout.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

const Step kInTraining{.seed = 5, .number = 3, .training = true};

/// The same elements as on one worker, forward and backward.
template <class Layer>
void expect_same_mask(uint64_t seed, int64_t least_dims, const Communicator& world) {
  Numbers draw(seed);
  const Grid grid(world, {{"all", world.size()}});
  std::vector<int64_t> shape;
  for (int64_t dims = draw.from(least_dims, 4); dims > 0; --dims) shape.push_back(draw.from(0, 9));
  const Layout input = random_layout(draw.seed(), random_grid(draw.seed(), world.size()), shape, Kind::partial);
  SCOPED_TRACE("input " + input.to_string());
  const at::Tensor whole_x = random_tensor(shape, Kind::replicated, world, draw.from(0, 1000));
  const at::Tensor x1 = whole_x.clone().requires_grad_(true);
  DistributedTensor x = laid_out(whole_x, input, grid);
  x.local.requires_grad_(true);
  x.step = kInTraining;
  x.step->first_sample = draw.from(0, 3);

  Layer layer(DropoutOptions(0.4), "layer");
  const Grid alone(Communicator(), {{"one", 1}});
  const at::Tensor y1 = layer->forward(DistributedTensor{x1, Layout(alone.shape(), shape), alone, x.step}).local;
  const DistributedTensor y = layer->forward(x);
  EXPECT_EQ(y.layout, input);
  EXPECT_EQ(y.step->first_sample, x.step->first_sample);
  const DistributedTensor summed_y = move(y, summed(input));
  expect_close(whole(summed_y).detach(), y1.detach(), "output");
  backward_from_both(summed_y, y1);
  expect_close(whole_gradient(x), x1.grad(), "gradient");
}

TEST(Dropout, of_later_samples_is_that_of_the_whole_batch) {
  const Grid grid(Communicator(), {{"one", 1}});
  const auto dropped = [&](int64_t samples, int64_t first) {
    DistributedTensor x{at::ones({samples, 20}), Layout(grid.shape(), {samples, 20}), grid};
    x.step = kInTraining;
    x.step->first_sample = first;
    return Dropout(DropoutOptions(0.4), "drop")(x).local;
  };
  EXPECT_TRUE(dropped(3, 2).equal(dropped(5, 0).narrow(0, 2, 3)));
  EXPECT_FALSE(dropped(3, 2).equal(dropped(5, 0).narrow(0, 0, 3)));
}

TEST(Dropout, of_all_leaves_nothing) {
  const Grid grid(Communicator(), {{"one", 1}});
  DistributedTensor x{at::ones({3, 2}).requires_grad_(), Layout(grid.shape(), {3, 2}), grid};
  x.step = Step{.training = true};
  const at::Tensor y = Dropout(DropoutOptions(1), "drop")(x).local;
  y.sum().backward();
  EXPECT_TRUE(y.equal(at::zeros({3, 2})));
  EXPECT_TRUE(x.local.grad().equal(at::zeros({3, 2})));
}

TEST(DistributedDropout, drops_the_same_elements_in_every_layout) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_seed(world, 60, [&](uint64_t seed) {
      expect_same_mask<Dropout>(seed, 1, world);
      expect_same_mask<ChannelDropout>(seed, 2, world);
    });
  });
}

DistributedTensor on_one(const at::Tensor& x, const std::optional<Step>& step = kInTraining) {
  const Grid alone(Communicator(), {{"one", 1}});
  return {x, Layout(alone.shape(), x.sizes().vec()), alone, step};
}

TEST(DistributedDropout, has_the_masks_of_the_plain_one) {
  Dropout layer(DropoutOptions(0.4), "layer");
  for (const int64_t tokens : {1, 5}) {
    const ForwardPass pass{kInTraining, LocalTokenRows(TokenRows::balanced(std::vector<int64_t>(4, tokens), 1))};
    const at::Tensor rows = dropout(at::ones({4 * tokens, 30}), 0.4, {"layer", 0}, pass);
    EXPECT_TRUE(layer(on_one(at::ones({4, tokens, 30}))).local.equal(rows.view({4, tokens, 30})));
  }
  EXPECT_TRUE(
      layer(on_one(at::ones({4, 30}))).local.equal(dropout(at::ones({4, 30}), 0.4, {"layer", 0}, {kInTraining})));
}

TEST(ChannelDropout, keeps_or_drops_whole_channels) {
  ChannelDropout layer(DropoutOptions(0.25), "layer");
  const at::Tensor y = layer(on_one(at::ones({40, 50, 2, 3}, at::kDouble))).local;
  EXPECT_TRUE(y.amax({2, 3}).equal(y.amin({2, 3})));
  // Five standard errors of a fraction of 2,000 draws: 5 sqrt(0.25 * 0.75 / 2000) = 0.0484.
  EXPECT_NEAR((y != 0).to(at::kDouble).mean().item<double>(), 0.75, 0.0485);
  EXPECT_DOUBLE_EQ(y.max().item<double>(), 1 / 0.75);
}

TEST(DistributedDropout, draws_other_masks_for_other_rows_steps_and_names) {
  Dropout layer(DropoutOptions(0.5), "layer"), other(DropoutOptions(0.5), "other");
  const DistributedTensor x = on_one(at::ones({2, 2, 2, 64}));
  DistributedTensor later = x;
  later.step->number += 1;
  const at::Tensor y = layer(x).local, rows = y.view({8, 64});
  for (int64_t a = 0; a < 8; ++a)
    for (int64_t b = 0; b < a; ++b) EXPECT_FALSE(rows[a].equal(rows[b])) << a << " and " << b;
  EXPECT_FALSE(y.equal(layer(later).local));
  EXPECT_FALSE(y.equal(other(x).local));
}

TEST(DistributedDropout, does_nothing_outside_training) {
  Dropout layer(DropoutOptions(0.5), "layer");
  const DistributedTensor x = on_one(at::ones({2, 64}));
  const DistributedTensor in_evaluation = on_one(x.local, Step()), of_no_step = on_one(x.local, {});
  EXPECT_TRUE(layer(in_evaluation).local.is_same(x.local));
  layer->eval();
  EXPECT_TRUE(layer(x).local.is_same(x.local));
  EXPECT_TRUE(layer(of_no_step).local.is_same(x.local));
}

TEST(DistributedDropout, refuses_what_does_not_fit) {
  EXPECT_EQ(thrown_by<InvalidArgument>([] { Dropout(DropoutOptions(1.5), "layer"); }),
            "Dropout 'layer': expected a probability in [0, 1], got 1.500000");
  const DistributedTensor x = on_one(at::ones({3}));
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { ChannelDropout(DropoutOptions(0.5), "layer")->forward(x); }),
            "Dropout 'layer': expected exact splits and at least 2 dims; the input is " + x.layout.to_string());
  EXPECT_THAT(thrown_by<InvalidArgument>([&] { Dropout(DropoutOptions(0.5), "layer")->forward(on_one(x.local, {})); }),
              ::testing::StartsWith("Dropout 'layer': expected an input with a step"));
}

}  // namespace
}  // namespace adjoin::nn
