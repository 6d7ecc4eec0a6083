#include "adjoin/nn/distributed/experts.hpp"

#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

MixtureOfExpertsOptions four_experts() {
  return {.features = 6,
          .hidden_features = 5,
          .experts = 4,
          .top_k = 2,
          .balance_loss = 0.3,
          .z_loss = 0.02,
          .tensor = at::kDouble};
}

/// The layer of one worker, whose weights have the same names.
struct Twin : torch::nn::Module {
  explicit Twin(const MixtureOfExpertsOptions& o)
      : experts(register_module("experts", MixtureOfExperts(o, one_worker(), "tp"))) {}
  mutable MixtureOfExperts experts;
};

TEST(DistributedMixtureOfExperts, is_the_layer_of_one_worker_whatever_the_layout) {
  for_each_world({1, 2, 4}, [](const Communicator& world) {
    const int tp = world.size() % 2 == 0 && world.size() > 2 ? 2 : 1;
    const Grid grid(world, {{"ep", world.size() / tp}, {"tp", tp}});
    MixtureOfExpertsOptions o = four_experts();
    const Twin twin(o);
    initialize(twin, 11);
    o.experts_axis = "ep";
    const std::vector<int64_t> shape{5, 3, 6};
    const Step step{.training = true, .loss_share = 0.7};
    const at::Tensor all = random_tensor(shape, Kind::replicated, world).requires_grad_(true);
    const at::Tensor of_y = random_tensor(shape, Kind::replicated, world, 7);
    const at::Tensor y1 = twin.experts->forward(
        all.view({15, 6}), ForwardPass{step, LocalTokenRows(TokenRows::balanced(std::vector<int64_t>(5, 3), 1))});
    (y1.view(shape) * of_y).sum().backward();

    const GridShape line({{"all", world.size()}});
    for (const std::vector<std::vector<std::string>>& axes :
         {std::vector<std::vector<std::string>>{{"all"}, {}, {}}, {{}, {"all"}, {}}, {{}, {}, {"all"}}, {{}, {}, {}}})
      for (const bool elsewhere : {false, true}) {
        const LayoutRule output = elsewhere ? balanced_over(line, {{}, {}, {"all"}}) : LayoutRule();
        DistributedMixtureOfExperts layer(o, grid, "tp", output);
        initialize(*layer, 11);
        const Layout layout = balanced_over(line, axes)(shape);
        DistributedTensor x = laid_out(all.detach(), layout, grid);
        x.local.requires_grad_(true);
        x.step = step;
        const DistributedTensor y = layer(x);
        EXPECT_EQ(y.layout, elsewhere ? output(shape) : layout);
        expect_close(whole(y).detach(), y1.view(shape).detach(), "output in " + y.layout.to_string());
        // The sum of y's pieces, each counted once.
        (y.local * laid_out(of_y, y.layout, grid).local).sum().backward();
        expect_close(whole_gradient(x), all.grad(), "gradient of the input");
        parallel::sum_gradients(*layer);
        expect_same_tensors(global_tensors(*layer, true), global_tensors(twin, true), "gradients");
      }
  });
}

TEST(DistributedMixtureOfExperts, refuses_what_does_not_fit) {
  launch_threads(2, [](const Communicator& world) {
    const Grid grid(world, {{"ep", 2}, {"tp", 1}});
    MixtureOfExpertsOptions o = four_experts();
    DistributedMixtureOfExperts layer(o, grid, "tp");
    initialize(*layer, 1);
    const auto of = [&](const std::vector<int64_t>& shape) {
      return laid_out(at::ones(shape, at::kDouble), layout_copied_on(grid.shape(), shape, {"ep", "tp"}), grid);
    };
    EXPECT_THROW(layer(of({4, 5})), InvalidArgument);
    EXPECT_THROW(layer(of({6})), InvalidArgument);
    EXPECT_THROW(DistributedMixtureOfExperts(o, Grid(world, {{"tp", 1}}), "tp"), InvalidArgument);
    o.split_rows = true;
    EXPECT_THROW(DistributedMixtureOfExperts(o, grid, "tp"), InvalidArgument);
  });
}

}  // namespace
}  // namespace adjoin::nn
