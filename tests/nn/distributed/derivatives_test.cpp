// Derivatives of layers, in LibTorch's graphs of which workers differ: second ones, of biases, and in forward mode.

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/util/ScopeExit.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/nn/distributed/batch_norm.hpp"
#include "adjoin/nn/distributed/conv.hpp"
#include "adjoin/nn/distributed/linear.hpp"
#include "adjoin/nn/distributed/pool.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/forward_mode.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;
using torch::autograd::grad;

Layout layout_cut_along(size_t dim, const std::vector<int64_t>& shape, const Grid& grid) {
  std::vector<std::vector<std::string>> axes(dim + 1);
  axes[dim] = {"w"};
  return balanced_over(grid.shape(), axes)(shape);
}

LayerLayouts in_float64(std::optional<Layout> weight = {}) {
  return {.weight = std::move(weight), .output = {}, .tensor = at::kDouble};
}

TEST(AdaptivePool, has_second_derivatives_where_workers_pool_other_numbers_of_cells) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    const int64_t rows = world.size();
    const std::vector<int64_t> shape{1, 1, rows, 6};
    const at::Tensor whole_x = random_tensor(shape, Kind::replicated, world),
                     v = random_tensor(shape, Kind::replicated, world, 1);
    const auto compare = [&](auto layer, auto twin) {
      DistributedTensor x = laid_out(whole_x, layout_cut_along(2, shape, grid), grid);
      x.local.requires_grad_(true);
      const at::Tensor x1 = whole_x.clone().requires_grad_(true), y1 = twin(x1);
      const DistributedTensor y = layer(x);
      const at::Tensor gy = at::ones_like(y.local).requires_grad_(true), gy1 = at::ones_like(y1).requires_grad_(true);
      const at::Tensor a = grad({y.local}, {x.local}, {gy}, true, /*create_graph=*/true)[0];
      const at::Tensor a1 = grad({y1}, {x1}, {gy1}, true, /*create_graph=*/true)[0];
      const auto second = grad({a}, {x.local, gy}, {laid_out(v, x.layout, grid).local}),
                 second1 = grad({a1}, {x1, gy1}, {v});
      expect_close(whole({second[0], x.layout, grid}), second1[0], "of x");
      expect_close(whole({second[1], y.layout, grid}), second1[1], "of the gradient");
    };
    const AdaptiveAvgPool2dOptions average({rows + 1, 1});
    const AdaptiveMaxPool2dOptions largest({rows + 1, 1});
    compare(AdaptiveAvgPool2d(average, grid), torch::nn::AdaptiveAvgPool2d(average));
    compare(AdaptiveMaxPool2d(largest, grid), torch::nn::AdaptiveMaxPool2d(largest));
  });
}

template <class Layer>
void differentiate_twice(Layer layer, const at::Tensor& input, const Layout& layout, const Grid& grid) {
  initialize(*layer, 1);
  DistributedTensor x = laid_out(input, layout, grid);
  x.local.requires_grad_(true);
  differentiate_each_gradient(x, layer(x), layer->parameters());
}

TEST(Bias, takes_part_on_all_workers_where_one_of_several_adds_it) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    const auto weight = [&](size_t inputs, const std::vector<int64_t>& shape) {
      return in_float64(layout_cut_along(inputs, shape, grid));
    };
    const at::Tensor rows = at::ones({5, 4}, at::kDouble), space = at::ones({2, 4, 5}, at::kDouble);
    for (const Layout& layout : {layout_cut_along(0, {5, 4}, grid), layout_cut_along(1, {5, 4}, grid)})
      differentiate_twice(Linear(LinearOptions(4, 3), weight(1, {3, 4}), grid), rows, layout, grid);
    for (const size_t cut : {0, 1, 2}) {
      const Layout layout = layout_cut_along(cut, {2, 4, 5}, grid);
      differentiate_twice(Conv1d(Conv1dOptions(4, 2, 3), weight(1, {2, 4, 3}), grid), space, layout, grid);
      differentiate_twice(Conv1d(Conv1dOptions(4, 2, 3), in_float64(), grid), space, layout, grid);
      const ConvTranspose1dOptions options(4, 2, 3);
      differentiate_twice(ConvTranspose1d(options, weight(0, {4, 2, 3}), grid), space, layout, grid);
      differentiate_twice(ConvTranspose1d(options, in_float64(), grid), space, layout, grid);
    }
  });
}

TEST(Layer, has_one_type_on_all_workers_under_autocast_where_some_compute_nothing) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(false);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const auto end = c10::make_scope_exit([] { at::autocast::set_autocast_enabled(at::kCPU, false); });
    const Grid grid(world, {{"w", world.size()}});
    const DistributedTensor x =
        laid_out(at::ones({1, 4}), layout_cut_along(0, {1, 4}, grid), grid);  // on worker 0 alone
    Linear linear(LinearOptions(4, 3), LayerLayouts{.weight = {}, .output = balanced_over(grid.shape(), {{}, {"w"}})},
                  grid);
    initialize(*linear, 1);
    const DistributedTensor y = linear(x);
    EXPECT_EQ(y.local.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(whole(y).equal(
        at::linear(at::ones({1, 4}), whole({linear->parameters()[0], Layout(grid.shape(), {3, 4}), grid}))));
    Conv1d conv(Conv1dOptions(1, 1, 1), LayerLayouts{.weight = {}, .output = balanced_over(grid.shape(), {{}, {"w"}})},
                grid);
    initialize(*conv, 1);
    EXPECT_EQ(
        conv(DistributedTensor{y.local.unsqueeze(0), layout_cut_along(2, {1, 1, 3}, grid), grid}).local.scalar_type(),
        at::kBFloat16);
  });
}

TEST(Layer, has_the_derivatives_of_one_worker_in_forward_mode_where_some_compute_nothing) {
  const ForwardMode mode;
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    const auto compare = [&](auto layer, auto twin, const std::vector<int64_t>& shape, size_t dim) {
      twin->to(at::kDouble);
      fill_both(*layer, *twin, world);
      const at::Tensor x = random_tensor(shape, Kind::replicated, world),
                       t = random_tensor(shape, Kind::replicated, world, 1);
      const Layout layout = layout_cut_along(dim, shape, grid);
      const at::Tensor here =
          with_tangent(laid_out(x, layout, grid).local.requires_grad_(true), laid_out(t, layout, grid).local);
      const DistributedTensor y = layer(DistributedTensor{here, layout, grid});
      expect_close(whole({tangent_of(y.local), y.layout, grid}).detach(), tangent_of(twin(with_tangent(x, t))).detach(),
                   "derivative");
    };
    compare(Linear(LinearOptions(4, 3), in_float64(), grid), torch::nn::Linear(4, 3), {2, 4}, 0);
    compare(Linear(LinearOptions(4, 3), in_float64(layout_cut_along(1, {3, 4}, grid)), grid), torch::nn::Linear(4, 3),
            {2, 4}, 1);
    compare(Conv1d(Conv1dOptions(2, 3, 3), in_float64(), grid), torch::nn::Conv1d(2, 3, 3), {1, 2, 5}, 2);
    compare(AdaptiveAvgPool1d(AdaptiveAvgPool1dOptions(3), grid), torch::nn::AdaptiveAvgPool1d(3), {1, 2, 5}, 2);
    for (const bool is_training : {true, false}) {
      BatchNorm1d layer(BatchNorm1dOptions(2), in_float64(), grid);
      torch::nn::BatchNorm1d twin(2);
      layer->train(is_training), twin->train(is_training);
      twin->to(at::kDouble);
      initialize(*layer, 1);
      compare(layer, twin, {2, 2, 3}, 0);
      expect_twin_parameters(*layer, *twin, /*gradients=*/false);
    }
  });
}

}  // namespace
}  // namespace adjoin::nn
