#include "adjoin/nn/distributed/softmax.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/activation.h>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/forward_mode.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

template <class Layer, class Twin, class Options>
void compare_softmax(uint64_t seed, const Communicator& world) {
  Numbers draw(seed);
  std::vector<int64_t> shape;
  for (int64_t dims = draw.from(1, 4); dims > 0; --dims) shape.push_back(draw.from(1, 6));
  const auto dims = static_cast<int64_t>(shape.size());
  const Options options(draw.from(-dims, dims - 1));
  const Grid grid(world, {{"all", world.size()}});
  const EndLayouts layouts = random_end_layouts(draw, shape, world.size());
  SCOPED_TRACE("dim " + std::to_string(options.dim()) + " of " + layouts.input.to_string());
  const at::Tensor x = random_tensor(shape, Kind::replicated, world, draw.from(0, 1000));
  expect_same_as_twin(Layer(options, grid, layouts.output), Twin(options), x * 20 + 700, layouts.input, grid);
}

TEST(Softmax, equals_one_worker_on_random_layouts) {
  namespace t = torch::nn;
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 30, [&](uint64_t seed) { compare_softmax<Softmax, t::Softmax, SoftmaxOptions>(seed, world); });
    for_each_seed(world, 20, [&](uint64_t seed) { compare_softmax<Softmin, t::Softmin, SoftminOptions>(seed, world); });
    for_each_seed(world, 30,
                  [&](uint64_t seed) { compare_softmax<LogSoftmax, t::LogSoftmax, LogSoftmaxOptions>(seed, world); });
  });
}

TEST(Softmax, has_the_forward_derivatives_of_one_worker_where_its_dim_is_cut) {
  const ForwardMode mode;
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"x", world.size()}});
    const Split split = Split::balanced(7, world.size(), /*dim=*/0);
    const Layout layout(grid.shape(), {7}, {{split, {"x"}}});
    const auto mine = [&](const at::Tensor& x) {
      return x.narrow(0, split.offset(world.rank()), split.size(world.rank()));
    };
    const at::Tensor x = at::linspace(-1, 2, 7, at::kDouble).sin() * 3, t = at::linspace(0, 5, 7, at::kDouble).cos();
    const at::Tensor s = at::softmax(x, 0), centred = t - (s * t).sum();
    const auto tangent = [&](auto layer) {
      return tangent_of(layer(DistributedTensor{with_tangent(mine(x), mine(t)), layout, grid}).local);
    };
    EXPECT_TRUE(tangent(Softmax(SoftmaxOptions(0), grid)).allclose(mine(s * centred), 1e-12, 1e-12));
    EXPECT_TRUE(tangent(LogSoftmax(LogSoftmaxOptions(0), grid)).allclose(mine(centred), 1e-12, 1e-12));
  });
}

TEST(Softmax, refuses_a_dim_that_is_not_there) {
  const Grid grid(Communicator(), {{"one", 1}});
  const Layout layout(grid.shape(), {2, 3});
  EXPECT_EQ(thrown_by<InvalidArgument>([&] {
              LogSoftmax(LogSoftmaxOptions(-3), grid)(DistributedTensor{at::ones({2, 3}), layout, grid});
            }),
            "LogSoftmax: expected an input that has dim -3; the input is " + layout.to_string());
}

}  // namespace
}  // namespace adjoin::nn
