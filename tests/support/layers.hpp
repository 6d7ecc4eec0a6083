#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <string>

#include "adjoin/base/hash.hpp"
#include "adjoin/movement/distributed_tensor.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "tests/support/scale.hpp"

namespace adjoin::testing {

/// Counts the calls of a communicator that it observes, but for barriers.
struct CallCount : Observer {
  void begin(const Call& call) override { calls += call.name != "barrier"; }
  int calls = 0;
};

/// This worker's piece of a tensor that all of them hold, in odd memory; of no elements outside the layout's grid. Along axes on which
/// the layout is partial the pieces are different summands.
DistributedTensor laid_out(const at::Tensor& global, const Layout& layout, const Grid& grid);

/// The global tensor of which a loss's gradient with respect to x is a piece here.
at::Tensor whole_gradient(const DistributedTensor& x);

/// Fills the parameters of a one-worker twin with random numbers, the same on every worker (LibTorch's own generator is
/// shared by all threads), and those of a layer with its pieces of them.
void fill_both(const torch::nn::Module& layer, const torch::nn::Module& twin, const Communicator& world);

void expect_close(const at::Tensor& found, const at::Tensor& expected, const std::string& what);

/// Whether all parameters, or their gradients, and buffers are those of the one-worker twin.
void expect_twin_parameters(const torch::nn::Module& layer, const torch::nn::Module& twin, bool gradients);

/// Backward from a sum of y's elements with random weights, each counted once over all workers; of the twin's too. What is known
/// of the layer's parameters and input must not be accused of wrong gradients.
void backward_from_both(const DistributedTensor& y, const at::Tensor& twin, const std::vector<KnownTensor>& known = {});

/// Adds to both the gradients of a penalty: the sum of the squares of the gradient with respect to x of a sum of y's elements
/// with random weights. Of x that is cut along all axes of its layout's grid.
void penalise_both(const DistributedTensor& x, const DistributedTensor& y, const at::Tensor& twin_x,
                   const at::Tensor& twin_y);
bool is_cut_along_all_axes(const Layout& layout);

/// Differentiates each gradient of y, with respect to x and to parameters, alone. Where the graph of one depends on other tensors on
/// some workers than on others, these workers wait for each other.
void differentiate_each_gradient(const DistributedTensor& x, const DistributedTensor& y,
                                 const std::vector<at::Tensor>& parameters);

/// Of a layer and its twin: the gradients of a gradient penalty, in which all workers come through the same movements twice.
template <class Layer, class Twin>
void expect_same_penalty(Layer& layer, Twin& twin, const at::Tensor& input, const Layout& layout, const Grid& grid) {
  if (!is_cut_along_all_axes(layout)) return;
  layer->zero_grad();
  twin->zero_grad();
  DistributedTensor x = laid_out(input, layout, grid);
  x.local.requires_grad_(true);
  const at::Tensor x1 = input.clone().requires_grad_(true);
  const DistributedTensor y = layer->forward(x);
  differentiate_each_gradient(x, y, layer->parameters());
  penalise_both(x, y, x1, twin->forward(x1));
  expect_close(whole_gradient(x), x1.grad().defined() ? x1.grad() : at::zeros_like(x1),
               "penalty's gradient of the input");
  parallel::sum_gradients(*layer);
  for (const at::Tensor& parameter : twin->parameters())
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
  expect_twin_parameters(*layer, *twin, /*gradients=*/true);
}

/// Compares a layer with its one-worker twin of torch::nn, in float64: the output, the gradients of the input and of
/// every parameter, also of a gradient penalty, and the parameters after a step of SGD. Called by all workers of grid.world(); `grid` has them all.
template <class Layer, class Twin>
void expect_same_as_twin(Layer layer, Twin twin, const at::Tensor& input, const Layout& layout, const Grid& grid,
                         bool has_second_derivatives = true) {
  twin->to(at::kDouble);
  fill_both(*layer, *twin, grid.world());
  DistributedTensor x = laid_out(input, layout, grid);
  x.local.requires_grad_(true);
  const at::Tensor x1 = input.clone().requires_grad_(true);

  const DistributedTensor y = layer->forward(x);
  const at::Tensor y1 = twin->forward(x1);
  ASSERT_EQ(y.layout.shape(), y1.sizes().vec());
  expect_close(whole(y).detach(), y1.detach(), "output in " + y.layout.to_string());
  std::vector<KnownTensor> known = nn::known_tensors(nn::parameters_of(*layer));
  known.push_back(known_tensor("input", x));
  backward_from_both(y, y1, known);
  expect_close(whole_gradient(x), x1.grad(), "gradient of the input");
  parallel::sum_gradients(*layer);
  expect_twin_parameters(*layer, *twin, /*gradients=*/true);
  // Of a third of the layouts where there are not more trials than for every change, since it takes as long as all else.
  if (has_second_derivatives && (test::scale() > 1 || hash_of(layout.to_string()) % 3 == 0))
    expect_same_penalty(layer, twin, input, layout, grid);
  if (!twin->parameters().empty()) {
    torch::optim::SGD(layer->parameters(), 0.1).step();
    torch::optim::SGD(twin->parameters(), 0.1).step();
    expect_twin_parameters(*layer, *twin, /*gradients=*/false);
  }
}

}  // namespace adjoin::testing
