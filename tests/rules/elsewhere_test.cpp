#include <gmock/gmock.h>
#include <torch/optim/adamw.h>

#include "tests/support/failures.hpp"
#include "tests/support/global_tensors.hpp"
#include "tests/support/random_modules.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::ranks_elsewhere {
namespace {

using namespace adjoin::testing;

/// A grid of all ranks but one, and the cells' ranks in another order.
GridShape all_but(int left_out, int ranks) {
  std::vector<int> some;
  for (int rank = ranks - 1; rank >= 0; --rank)
    if (rank != left_out) some.push_back(rank);
  return GridShape({{"a", static_cast<int>(some.size())}}, some);
}

TEST(RanksElsewhere, run_the_same_code_without_elements) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    for (int seed = 0; seed < 10; ++seed) {
      const Grid grid(world, all_but(seed % world.size(), world.size()));
      const auto plain = std::make_shared<RandomModule>(seed), net = std::make_shared<RandomModule>(seed);
      const parallel::Cuts cuts = random_cuts(static_cast<uint64_t>(seed) + 1, *net, grid.shape());
      SCOPED_TRACE("seed " + std::to_string(seed) + " on " + grid.shape().to_string() + "\n" + plain->to_string());
      auto model = parallel::distribute(net, grid, cuts);
      torch::optim::AdamW of_net(net->parameters(), torch::optim::AdamWOptions(1e-2));
      const at::Tensor ids = at::arange(15).remainder(RandomModule::kWords).view({3, 5}),
                       x = (at::arange(180, at::kDouble) * 0.7).cos().view({3, 5, 12});
      for (int step = 0; step < 2; ++step) {
        const at::Tensor expected = plain->forward(ids, x), loss = model.forward({.number = step}, ids, x);
        EXPECT_EQ(loss.sizes(), expected.sizes());
        EXPECT_EQ(loss.scalar_type(), expected.scalar_type());
        ASSERT_EQ(loss.requires_grad(), expected.requires_grad());
        if (!expected.requires_grad()) break;
        of_net.zero_grad();
        loss.backward();
        if (step == 0) {
          expected.backward();
          for (const auto& item : net->named_parameters()) {
            const at::Tensor gradient = item.value().grad(), of_plain = plain->named_parameters()[item.key()].grad();
            EXPECT_EQ(gradient.defined(), of_plain.defined()) << item.key();
            if (!gradient.defined()) continue;
            EXPECT_EQ(gradient.sizes(), of_plain.sizes());
            if (grid.has_me()) EXPECT_LT(largest_error(whole(gradient), of_plain), 1e-12) << item.key();
          }
          if (grid.has_me()) EXPECT_LT(largest_error(whole(loss), expected), 1e-12);
        }
        of_net.step();
      }
      if (!grid.has_me()) EXPECT_EQ(local_of(net->parameters()[0]).local.numel(), 0);
    }
  });
}

TEST(RanksElsewhere, have_no_elements_to_ask_for) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const Grid grid(world, all_but(1, world.size()));
    if (grid.has_me()) return;
    const at::Tensor x = global({at::empty({0}, at::kDouble), Layout(grid.shape(), {4, 3}), grid});
    const auto refused = [](auto function) { return thrown_by<InvalidArgument>(function); };
    using ::testing::HasSubstr;
    EXPECT_THAT(refused([&] { (void)whole(x); }), HasSubstr("whole: expected a rank of the grid"));
    EXPECT_THAT(refused([&] { (void)x.sum().item<double>(); }), HasSubstr("expected a rank of the grid"));
    EXPECT_THAT(refused([&] { (void)at::equal(x, x + 1); }), HasSubstr("expected a rank of the grid"));
    at::Tensor plain = at::zeros({3}, at::kDouble);
    EXPECT_THAT(refused([&] { plain.add_(x.sum(0)); }), HasSubstr("expected a rank of the grid"));
    EXPECT_EQ((x.view({2, 6}).to(at::kFloat) + 1).sizes(), std::vector<int64_t>({2, 6}));
  });
}

}  // namespace
}  // namespace adjoin::ranks_elsewhere
