#include "adjoin/nn/distributed/pad.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/padding.h>
#include <torch/nn/modules/padding.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

/// torch::nn has it in Python alone.
template <size_t D>
struct CircularTwin : torch::nn::Module {
  explicit CircularTwin(const CircularPadOptions<D>& o) : padding(o.padding()->begin(), o.padding()->end()) {}
  at::Tensor forward(const at::Tensor& x) {
    namespace F = torch::nn::functional;
    return F::pad(x, F::PadFuncOptions(padding).mode(torch::kCircular));
  }
  std::vector<int64_t> padding;
};

template <size_t D>
torch::ExpandingArray<D * 2> random_pads(Numbers& draw, const WindowCase& drawn, bool crops) {
  std::vector<int64_t> pads;
  for (size_t d = D; d-- > 0;) {
    const int64_t size = drawn.input[drawn.input.size() - D + d], left = draw.from(crops ? -size + 1 : 0, size - 1);
    pads.push_back(left);
    pads.push_back(draw.from(crops ? std::max(-size + 1, 1 - size - left) : 0, size - 1));
  }
  return array<D * 2>(pads);
}

/// Compares paddings of D dims of space with those of one worker; `Twin` makes torch's from the options.
template <size_t D, class Options, class Twin>
void compare_pad(Numbers& draw, const WindowCase& drawn, const Options& options, const Twin& twin,
                 const Communicator& world) {
  const Grid grid(world, {{"all", world.size()}});
  const EndLayouts layouts = random_end_layouts(draw, drawn.input, world.size());
  std::string pads;
  for (const int64_t pad : *options.padding()) pads += " " + std::to_string(pad);
  SCOPED_TRACE(geometry_of(options).name + pads + " of " + layouts.input.to_string());
  const at::Tensor x = random_tensor(drawn.input, Kind::replicated, world, draw.from(0, 1000));
  expect_same_as_twin(std::make_shared<PadOf<Options>>(options, grid, layouts.output), twin, x, layouts.input, grid);
}

template <size_t D, class Zero, class Constant, class Reflection, class Replication>
void compare_all_pads(uint64_t seed, const Communicator& world) {
  Numbers draw(seed);
  const WindowCase drawn = random_window_case(draw, D, false);
  const auto pads = [&](bool crops) { return random_pads<D>(draw, drawn, crops); };
  switch (seed % 5) {
    case 0: {
      const torch::nn::ZeroPadOptions<D> options(pads(true));
      return compare_pad<D>(draw, drawn, options, Zero(options), world);
    }
    case 1: {
      const torch::nn::ConstantPadOptions<D> options(pads(true), 3.5);
      return compare_pad<D>(draw, drawn, options, Constant(options), world);
    }
    case 2: {
      const torch::nn::ReflectionPadOptions<D> options(pads(false));
      return compare_pad<D>(draw, drawn, options, Reflection(options), world);
    }
    case 3: {
      const torch::nn::ReplicationPadOptions<D> options(pads(false));
      return compare_pad<D>(draw, drawn, options, Replication(options), world);
    }
    default: {
      const CircularPadOptions<D> options(pads(false));
      return compare_pad<D>(draw, drawn, options, std::make_shared<CircularTwin<D>>(options), world);
    }
  }
}

TEST(Pad, equals_one_worker_on_random_paddings_crops_and_layouts) {
  namespace t = torch::nn;
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 40, [&](uint64_t seed) {
      compare_all_pads<1, t::ZeroPad1d, t::ConstantPad1d, t::ReflectionPad1d, t::ReplicationPad1d>(seed, world);
    });
    for_each_seed(world, 40, [&](uint64_t seed) {
      compare_all_pads<2, t::ZeroPad2d, t::ConstantPad2d, t::ReflectionPad2d, t::ReplicationPad2d>(seed, world);
    });
    for_each_seed(world, 20, [&](uint64_t seed) {
      compare_all_pads<3, t::ZeroPad3d, t::ConstantPad3d, t::ReflectionPad3d, t::ReplicationPad3d>(seed, world);
    });
  });
}

TEST(Pad, refuses_what_leaves_nothing_and_what_only_a_constant_does) {
  const Grid grid(Communicator(), {{"one", 1}});
  const Layout layout(grid.shape(), {1, 4});
  const DistributedTensor x{at::ones({1, 4}), layout, grid};
  const std::string input = "; the input is " + layout.to_string();
  EXPECT_EQ(thrown_by<InvalidArgument>([&] {
              ZeroPad1d(ZeroPad1dOptions({-3, -1}), grid)(x);
            }),
            "ZeroPad1d: expected a crop that leaves at least 1 of the 4 inputs of dim 1" + input);
  EXPECT_EQ(thrown_by<InvalidArgument>([&] {
              ReplicationPad1d(ReplicationPad1dOptions({-1, 1}), grid)(x);
            }),
            "ReplicationPad1d: expected paddings of at least 0, as only a constant padding crops" + input);
}

}  // namespace
}  // namespace adjoin::nn
