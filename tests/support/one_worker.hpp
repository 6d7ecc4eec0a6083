#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <map>
#include <string>

#include "adjoin/movement/distributed_tensor.hpp"
#include "adjoin/nn/parameter.hpp"
#include "tests/support/adjoint.hpp"

namespace adjoin::testing {

/// A grid of one axis over all workers of a group, as layers are cut in the tests.
inline Grid on_tp(const Communicator& group) {
  return Grid(group, {{"tp", group.size()}});
}
/// The same of this worker alone.
inline Grid one_worker() {
  return on_tp(Communicator());
}

/// The global tensors of a module's parameters, or of their gradients, by name; on every worker of the grid.
inline std::map<std::string, at::Tensor> global_tensors(const torch::nn::Module& module, bool gradients) {
  std::map<std::string, at::Tensor> tensors;
  for (const nn::Parameter& p : nn::parameters_of(module)) {
    const at::Tensor local = gradients ? p.tensor.grad() : p.tensor.detach();
    tensors[p.name] = whole({local, p.layout, p.grid});
  }
  return tensors;
}

inline void expect_same_tensors(const std::map<std::string, at::Tensor>& found,
                                const std::map<std::string, at::Tensor>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(at::allclose(found.at(name), tensor, 1e-11, 1e-12)) << what << " of " << name << " differ";
}

/// Compares a layer on the group `world` with the same layer on one worker, in float64: the output, the gradients of
/// the input and of every parameter, and the weights after an optimizer step. `make(grid)` builds the layer on axis "tp",
/// `run(layer, x)` applies it; input and output are replicated.
template <class Make, class Run>
void expect_same_as_one_worker(const Communicator& world, at::IntArrayRef shape, Make make, Run run) {
  auto parallel = make(on_tp(world)), single = make(one_worker());
  nn::initialize(*parallel, 11);
  nn::initialize(*single, 11);
  expect_same_tensors(global_tensors(*parallel, false), global_tensors(*single, false), "initial weights");

  const at::Tensor x = random_tensor(shape, Kind::replicated, world).requires_grad_(true);
  const at::Tensor x1 = x.detach().clone().requires_grad_(true);
  const at::Tensor y = run(parallel, x), y1 = run(single, x1);
  ASSERT_TRUE(at::allclose(y, y1, 1e-11, 1e-12)) << "outputs differ";
  const at::Tensor weights = random_tensor(y.sizes(), Kind::replicated, world, 7);
  (y * weights).sum().backward();
  (y1 * weights).sum().backward();
  EXPECT_TRUE(at::allclose(x.grad(), x1.grad(), 1e-11, 1e-12)) << "gradients of the input differ";
  expect_same_tensors(global_tensors(*parallel, true), global_tensors(*single, true), "gradients");

  // A bias of keys has no gradient but rounding, which AdamW's usual epsilon of 1e-8 would blow up to a whole step.
  const auto options = torch::optim::AdamWOptions(0.01).eps(1e-4);
  torch::optim::AdamW(parallel->parameters(), options).step();
  torch::optim::AdamW(single->parameters(), options).step();
  expect_same_tensors(global_tensors(*parallel, false), global_tensors(*single, false), "weights after a step");
}

}  // namespace adjoin::testing
