// What reads tensors in loops of its own and has no other way on a device yet says so, instead of touching the device's memory.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/interpolation.hpp"
#include "adjoin/nn/dropout.hpp"
#include "adjoin/nn/expert_rows.hpp"
#include "adjoin/nn/fill.hpp"
#include "adjoin/nn/positions.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/simulated_device/simulated_device.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

TEST(DeviceLoops, that_are_missing_are_named) {
  const auto expect_named = [](const char* name, const std::function<void()>& call) {
    EXPECT_EQ(thrown_by<InvalidArgument>(call),
              std::string(name) + ": there is no code for devices yet, got a tensor on privateuseone:0");
  };
  const at::Tensor x = at::ones({3, 2, 4}, at::device(kSimulated));
  expect_named("interpolation", [&] { Interpolation({Taps{.index = {{0, 1}}, .weight = {}}})(x); });
  const at::Tensor chosen = at::zeros({3, 2}, at::device(kSimulated).dtype(at::kLong));
  expect_named("ExpertRows", [&] { ExpertRows(chosen, Split::balanced(3, 1, 0), Communicator()); });
}

TEST(DeviceLoops, of_the_cpu_serve_the_device_by_copies) {
  const at::Tensor x = at::rand({3, 2, 4}, at::kDouble), there = x.to(kSimulated);
  const auto words = [](int64_t r) { return MaskRow{philox_key(5, "x"), 0, static_cast<uint32_t>(r), 0, 0}; };
  EXPECT_TRUE(dropout_rows(there, 0.5, words).cpu().equal(dropout_rows(x, 0.5, words)));

  const auto count = [](std::span<double> numbers, int64_t first) {
    for (double& number : numbers) number = static_cast<double>(first++);
  };
  fill_piece(there, adjoin::Layout(GridShape({{"one", 1}}), {3, 2, 4}), 0, count);
  EXPECT_TRUE(there.cpu().equal(at::arange(24, at::kDouble).view({3, 2, 4})));

  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor tokens = at::tensor({0, 1, 5}, at::kLong), pairs = x.to(type);
    const at::Tensor turned = rotary(pairs.to(kSimulated), tokens, RotaryOptions{}).cpu(),
                     expected = rotary(pairs, tokens, RotaryOptions{});
    EXPECT_TRUE(turned.allclose(expected, 1e-2, 1e-2)) << type;
  }
}

}  // namespace
}  // namespace adjoin::nn
