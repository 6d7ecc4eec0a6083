// Any module whose weights are on a device: its weights shared out by stages, and cut by `distribute`.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/parallel/weights.hpp"
#include "tests/support/tested_device.hpp"
#include "tests/support/waves.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

constexpr int64_t kWords = 11, kFeatures = 6, kHidden = 8;

struct Net : torch::nn::Module {
  explicit Net(c10::Device device) {
    double begin = 0;
    const auto own = [&](const char* name, at::IntArrayRef sizes) {
      return register_parameter(name, (waves_of(sizes, begin += 100) * 0.3).to(device));
    };
    table = own("table", {kWords, kFeatures});
    up = own("up", {kHidden, kFeatures});
    bias = own("bias", {kHidden});
    down = own("down", {kFeatures, kHidden});
    scale = own("scale", {kFeatures});
  }
  at::Tensor forward(const at::Tensor& ids) {
    const at::Tensor x = at::embedding(table, ids), y = at::layer_norm(x, {kFeatures}, scale, {});
    return at::linear(x + at::linear(at::gelu(at::linear(y, up, bias)), down), table);
  }
  at::Tensor table, up, bias, down, scale;
};

at::Tensor ids_of(int64_t step, int64_t rank, c10::Device device) {
  return (at::arange(8) * (step + 3) + rank).remainder(kWords).view({2, 4}).to(device);
}
at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& ids) {
  return at::cross_entropy_loss(scores.reshape({-1, kWords}), ids.roll({-1}, {1}).reshape({-1}));
}

/// What `losses` says of the device and of the CPU.
template <class Losses>
void expect_as_on_cpu(const Losses& losses) {
  const std::vector<double> expected = losses(at::kCPU), found = losses(tested_device());
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-10 * std::abs(expected[i])) << i;
}

TEST(DeviceModule, trains_in_every_stage_as_on_the_cpu) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for (const int zero : {0, 1, 2, 3}) {
      SCOPED_TRACE("stage " + std::to_string(zero));
      expect_as_on_cpu([&](c10::Device device) {
        Net net(device);
        Weights weights(net, world, {.zero = zero});
        torch::optim::AdamW optimizer(weights.parts(), torch::optim::AdamWOptions(0.02).eps(1e-3));
        std::vector<double> losses;
        for (int64_t step = 0; step < 3; ++step) {
          const at::Tensor ids = ids_of(step, world.rank(), device);
          losses.push_back(weights.backward(loss_of(net.forward(ids), ids), ids.size(0)));
          weights.step(optimizer, /*clip=*/0.5);
        }
        return losses;
      });
    }
  });
}

TEST(DeviceModule, that_is_cut_trains_as_on_the_cpu) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const std::vector<Cuts> all{{{{"up", "outputs over tp"}, {"bias", "outputs over tp"}, {"down", "inputs over tp"}}},
                                {{{"table", "words over tp"}}},
                                {{}, {"samples over tp"}}};
    for (const Cuts& cuts : all)
      expect_as_on_cpu([&](c10::Device device) {
        auto net = std::make_shared<Net>(device);
        auto model = distribute(net, Grid(world, {{"tp", world.size()}}), cuts);
        SCOPED_TRACE(model.to_string());
        Optimizer optimizer(model.trained(), adamw({.epsilon = 1e-3}), {.clip = 0.5});
        std::vector<double> losses;
        for (int64_t step = 0; step < 2; ++step) {
          const at::Tensor ids = ids_of(step, 0, device), loss = loss_of(model.forward({.number = step}, ids), ids);
          losses.push_back(loss.item<double>());
          loss.backward();
          losses.push_back(optimizer.step(0.02).norm);
        }
        return losses;
      });
  });
}

}  // namespace
}  // namespace adjoin::parallel
