#include "adjoin/nn/distributed/softmax.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
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
