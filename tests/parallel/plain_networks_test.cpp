// The plain networks of examples/networks on many workers, against those of layers of nn::distributed on one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "examples/networks/plain_resnet.hpp"
#include "examples/networks/plain_unet.hpp"
#include "examples/networks/resnet.hpp"
#include "examples/networks/unet.hpp"
#include "tests/support/waves.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel::plain_networks {
namespace {

using namespace adjoin::testing;

constexpr int kSteps = 3;
constexpr int64_t kClasses = 3;

at::Tensor picture(std::vector<int64_t> shape) {
  return ((at::arange(c10::multiply_integers(shape), at::kDouble) + 7) * 0.37).sin().view(shape);
}

/// The losses of a few steps of SGD. `scores(step)` is the network's result.
std::vector<double> trained(const std::vector<at::Tensor>& weights, const std::function<at::Tensor(int)>& scores,
                            const at::Tensor& target) {
  torch::optim::SGD optimizer(weights, torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor loss = at::cross_entropy_loss(scores(step), target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

template <class Plain, class Layers>
void expect_as_of_layers(const std::function<std::shared_ptr<Plain>()>& plain, Layers of_layers, const at::Tensor& x,
                         const at::Tensor& target, const Grid& alone) {
  fill_with_waves(*of_layers);
  const std::vector<double> expected = trained(
      of_layers->parameters(),
      [&](int) {
        return of_layers->forward({x, Layout(alone.shape(), x.sizes().vec()), alone}).local;
      },
      target);
  EXPECT_GT(std::abs(expected.back() - expected.front()), 1e-4);
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    const Cuts all[] = {{{}, {"samples over a"}}, {{}, {"dim 2 over a"}}, {{{"*", "outputs over a"}}}};
    for (const Cuts& cuts : all) {
      auto model = distribute(plain(), grid, cuts);
      SCOPED_TRACE(std::to_string(world.size()) + " workers; " + (cuts.inputs.empty() ? "channels" : cuts.inputs[0]));
      const auto losses = trained(
          model->parameters(), [&](int step) { return model.forward({.number = step}, x); }, target);
      for (size_t step = 0; step < losses.size(); ++step) EXPECT_NEAR(losses[step], expected[step], 1e-9);
    }
  });
}

template <class Plain>
std::shared_ptr<Plain> made(int64_t width) {
  const auto plain = std::make_shared<Plain>(kClasses, width);
  fill_with_waves(*plain);
  return plain;
}

TEST(PlainNetworks, a_unet_trains_in_every_layout_as_that_of_layers_does) {
  const Grid alone(Communicator(), {{"y", 1}});
  const at::Tensor x = picture({3, 1, 16, 12}), target = at::arange(3 * 16 * 12).remainder(kClasses).view({3, 16, 12});
  expect_as_of_layers<example::PlainUNetImpl>(
      [] { return made<example::PlainUNetImpl>(2); },
      example::UNet(nn::NetworkPlacement{.grid = alone, .space = {{"y"}, {}}}, kClasses, 2), x, target, alone);
}

TEST(PlainNetworks, a_residual_network_trains_in_every_layout_as_that_of_layers_does) {
  const Grid alone(Communicator(), {{"y", 1}});
  const at::Tensor x = picture({4, 3, 20, 18}), target = at::arange(4).remainder(kClasses);
  expect_as_of_layers<example::PlainResNet18Impl>(
      [] { return made<example::PlainResNet18Impl>(2); },
      example::resnet18(nn::NetworkPlacement{.grid = alone, .space = {{"y"}, {}}}, kClasses, 2), x, target, alone);
}

}  // namespace
}  // namespace adjoin::parallel::plain_networks
