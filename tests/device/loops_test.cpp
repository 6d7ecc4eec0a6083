// What reads tensors in loops of its own and has no other way on a device yet says so, instead of touching the device's memory.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/batch_norm.hpp"
#include "adjoin/nn/distributed/interpolation.hpp"
#include "adjoin/nn/dropout.hpp"
#include "adjoin/nn/expert_tokens.hpp"
#include "adjoin/nn/fill.hpp"
#include "adjoin/nn/init.hpp"
#include "adjoin/nn/positions.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/tested_device.hpp"
#include "tests/support/waves.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

TEST(DeviceLoops, have_ways_by_operations_with_the_same_results) {
  const at::Tensor x = at::rand({2, 3, 5, 4}, at::kDouble);
  const auto expect_same = [&](const auto& map) {
    at::Tensor here = x.clone().requires_grad_(), there = x.to(tested_device()).requires_grad_();
    const at::Tensor y = map(here), z = map(there);
    EXPECT_TRUE(z.cpu().allclose(y, 1e-12, 1e-12));
    const at::Tensor dy = at::rand(y.sizes(), at::kDouble);
    y.backward(dy), z.backward(dy.to(tested_device()));
    EXPECT_TRUE(there.grad().cpu().allclose(here.grad(), 1e-12, 1e-12));
  };
  const std::vector<Taps> taps{{.index = {{0, 1, 1}}, .weight = {}},
                               {.index = {{0, 2, 3}, {1, 3, 4}}, .weight = {{0.25, 0.5, 1}, {0.75, 0.5, 0}}},
                               {.index = {{0, 1, 3, 3}}, .weight = {}}};
  expect_same([&](const at::Tensor& t) { return Interpolation({taps[1], taps[2]})(t); });
  expect_same([&](const at::Tensor& t) { return Interpolation({taps[1], taps[2]})(t.unsqueeze(0).squeeze(0)); });

  const at::Tensor chosen = at::tensor({2, 0, 1, 2, 0, 2}, at::kLong).view({3, 2}),
                   rows = at::rand({3, 2}, at::kDouble);
  const ExpertTokens here(chosen, Split::balanced(3, 1, 0), Communicator()),
      there(chosen.to(tested_device()), Split::balanced(3, 1, 0), Communicator(), tested_device());
  EXPECT_TRUE(there.from_experts(there.to_experts(rows.to(tested_device())))
                  .cpu()
                  .equal(here.from_experts(here.to_experts(rows))));
}

std::unique_ptr<ChannelNormImpl> make_norm(bool per_sample, const LayerLayouts& placement, const Grid& grid) {
  if (!per_sample) return std::make_unique<BatchNorm1dImpl>(torch::nn::BatchNormOptions(4), placement, grid);
  return std::make_unique<InstanceNorm1dImpl>(torch::nn::InstanceNormOptions(4).affine(true).track_running_stats(true),
                                              placement, grid);
}

/// Batch and instance norms, in training and with their running statistics.
TEST(DeviceLoops, of_norms_have_ways_by_operations_with_the_same_results) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"space", world.size()}});
    const Layout layout = Layout(grid.shape(), {3, 4, 6}).with_cut({Split::balanced(6, world.size(), 2), {"space"}});
    for (const bool per_sample : {false, true}) {
      std::vector<at::Tensor> results[2];
      for (const c10::Device device : {c10::Device(at::kCPU), tested_device()}) {
        const at::Tensor x = waves_of(layout.shape_on(world.rank())).to(device).requires_grad_();
        const LayerLayouts placement{.tensor = at::device(device).dtype(at::kDouble)};
        const std::unique_ptr<ChannelNormImpl> norm = make_norm(per_sample, placement, grid);
        initialize(parameters_of(*norm), 3);
        std::vector<at::Tensor>& seen = results[device.is_cpu() ? 0 : 1];
        for (const bool is_training : {true, false}) {
          norm->train(is_training);
          const at::Tensor y = norm->forward({x, layout, grid, {}}).local;
          y.square().sum().backward();
          seen.push_back(y.detach().cpu());
        }
        seen.push_back(x.grad().cpu());
        for (const at::Tensor& weight : norm->parameters()) seen.push_back(weight.grad().cpu());
        for (const at::Tensor& buffer : norm->buffers()) seen.push_back(buffer.cpu());
      }
      ASSERT_EQ(results[0].size(), results[1].size());
      for (size_t i = 0; i < results[0].size(); ++i)
        EXPECT_TRUE(results[1][i].allclose(results[0][i], 1e-9, 1e-12)) << per_sample << ' ' << i;
    }
  });
}

TEST(DeviceLoops, of_dropout_positions_and_initial_values_serve_the_device) {
  const at::Tensor x = at::rand({3, 2, 4}, at::kDouble), there = x.to(tested_device());
  const auto words = [](int64_t r) { return MaskRow{philox_key(5, "x"), 0, static_cast<uint32_t>(r), 0, 0}; };
  EXPECT_TRUE(dropout_rows(there, 0.5, words).cpu().equal(dropout_rows(x, 0.5, words)));
  const at::Tensor wide = at::rand({3, 29}, at::kFloat);
  const auto from_the_middle = [](int64_t r) {  // of a block of eight words
    return MaskRow{philox_key(static_cast<uint64_t>(r) << 40, "y"), 0xFFFFFFE3, static_cast<uint32_t>(-r), 7,
                   0xFFFFFFFF};
  };
  EXPECT_TRUE(dropout_rows(wide.to(tested_device()), 0.3, from_the_middle)
                  .cpu()
                  .equal(dropout_rows(wide, 0.3, from_the_middle)));

  const auto count = [](std::span<double> numbers, int64_t first) {
    for (double& number : numbers) number = static_cast<double>(first++);
  };
  fill_piece(there, adjoin::Layout(GridShape({{"one", 1}}), {3, 2, 4}), 0, count);
  EXPECT_TRUE(there.cpu().equal(at::arange(24, at::kDouble).view({3, 2, 4})));

  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor tokens = at::tensor({0, 1, 5}, at::kLong), pairs = x.to(type);
    const at::Tensor turned = rotary(pairs.to(tested_device()), tokens, RotaryOptions{}).cpu(),
                     expected = rotary(pairs, tokens, RotaryOptions{});
    EXPECT_TRUE(turned.allclose(expected, 1e-2, 1e-2)) << type;
  }
}

}  // namespace
}  // namespace adjoin::nn
