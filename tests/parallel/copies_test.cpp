#include "adjoin/parallel/copies.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "adjoin/base/error.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/odd_memory.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;

/// Of which each rank has other weights in its second layer, one number of which differs in its last bit.
torch::nn::Sequential model_of(int rank) {
  torch::nn::Sequential model(torch::nn::Linear(3, 5), torch::nn::Linear(5, 1));
  const at::NoGradGuard no_gradient;
  for (const at::Tensor& weight : model->parameters()) weight.fill_(1);
  if (rank == 1) model->parameters()[2][0][3] = std::nextafter(1.0f, 2.0f);
  return model;
}

template <class Use>
void expect_refused(const Use& use, const char* who) {
  for_each_world({2, 3, 4}, [&](const Communicator& world) {
    const Grid grid(world, {{"dp", world.size()}});
    const torch::nn::Sequential model = model_of(world.rank());
    for (const at::Tensor& weight : model->parameters()) weight.mutable_grad() = at::ones_like(weight);
    const std::string message = thrown_by<InvalidArgument>([&] { use(nn::parameters_of(*model, grid)); });
    EXPECT_THAT(message, HasSubstr(std::string(who) + ": the copies of '1.weight' differ between ranks"));
    broadcast_parameters(*model, world);
    use(nn::parameters_of(*model, grid));
    EXPECT_EQ(model->parameters()[2][0][3].item<float>(), model->parameters()[2][0][2].item<float>());
  });
}

TEST(Copies, that_differ_are_refused_by_the_optimizer) {
  expect_refused([](const auto& parameters) { Optimizer(parameters, sgd()).step(0.1); }, "Optimizer");
}

TEST(Copies, that_differ_are_refused_where_gradients_are_summed) {
  expect_refused([](const auto& parameters) { sum_gradients(parameters); }, "sum_gradients");
}

TEST(Copies, are_compared_at_the_first_use_alone) {
  for_each_world({2}, [](const Communicator& world) {
    if (world.size() != 2) return;
    const Grid grid(world, {{"dp", 2}});
    const torch::nn::Sequential model = model_of(0);
    sum_gradients(nn::parameters_of(*model, grid));
    const at::NoGradGuard no_gradient;
    model->parameters()[0].fill_(world.rank());
    sum_gradients(nn::parameters_of(*model, grid));
  });
}

TEST(Copies, are_given_to_tensors_in_any_memory) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    Numbers odd(static_cast<uint64_t>(world.rank()));
    for (const at::ScalarType type : {at::kDouble, at::kComplexDouble})
      for (int trial = 0; trial < 8; ++trial) {
        torch::nn::Module module;
        const at::Tensor values = at::arange(12, at::kDouble).view({3, 4}).to(type);
        const at::Tensor tensor =
            module.register_buffer("tensor", in_odd_memory(world.rank() == 0 ? values : values * 0, odd).detach());
        broadcast_parameters(module, world);
        EXPECT_TRUE(tensor.equal(values));
        check_copies(nn::parameters_of(module, Grid(world, {{"dp", world.size()}})), "test");
      }
  });
}

}  // namespace
}  // namespace adjoin::parallel
