#include "adjoin/nn/seeded.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

/// Numbers of each kind of draw.
std::vector<at::Tensor> drawn() {
  return {at::rand({5}),
          at::randn({5}),
          at::randperm(9),
          at::empty({5}).uniform_(-1, 1),
          at::dropout(at::ones({20}), 0.5, /*train=*/true),
          at::bernoulli(at::full({9}, 0.5)),
          at::multinomial(at::ones({9}), 3),
          torch::nn::Linear(3, 4)->weight.detach()};
}

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
}

TEST(Seeded, draws_as_the_default_generator_would_and_leaves_it_alone) {
  at::manual_seed(5);
  const std::vector<at::Tensor> five = drawn();
  at::manual_seed(6);
  const std::vector<at::Tensor> six = drawn();
  at::manual_seed(6);
  std::vector<at::Tensor> seeded, within;
  with_seed(5, [&] {
    with_seed(6, [&] { within = drawn(); });
    seeded = drawn();
  });
  expect_equal(seeded, five);
  expect_equal(within, six);
  expect_equal(drawn(), six);
}

TEST(Seeded, draws_the_same_while_other_threads_draw) {
  at::manual_seed(5);
  const std::vector<at::Tensor> five = drawn();
  std::atomic<bool> is_over = false;
  std::jthread other([&] {
    while (!is_over) drawn();
  });
  for (int i = 0; i < 50; ++i) with_seed(5, [&] { expect_equal(drawn(), five); });
  is_over = true;
}

TEST(Seeded, gives_all_ranks_the_weights_of_one) {
  const auto make = [] { return torch::nn::Linear(30, 40); };
  const at::Tensor expected = seeded(7, make)->weight.detach().clone();
  const at::Tensor before = at::rand({4});
  testing::for_each_world({1, 2, 3, 4}, [&](const Communicator&) {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(at::equal(seeded(7, make)->weight, expected));
  });
  EXPECT_FALSE(at::equal(before, at::rand({4}))) << "the generator has lost its state";
}

}  // namespace
}  // namespace adjoin::nn
