#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/mappings.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr int64_t kDeep = 70;  // LibTorch continues on another thread from 60 on

at::Tensor summed_within(const at::Tensor& x, int64_t depth, const Communicator* world);

/// Computed again in backward, as a reentrant checkpoint of PyTorch.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, int64_t depth, int64_t world) {
    ctx->save_for_backward({x});
    ctx->saved_data["depth"] = depth;
    ctx->saved_data["world"] = world;
    return x.clone();  // what is computed is of no matter here, only its backward is
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const at::AutoGradMode with_gradient(true);
    const at::Tensor x = ctx->get_saved_variables()[0].detach().requires_grad_(true);
    const auto* world = reinterpret_cast<const Communicator*>(ctx->saved_data["world"].toInt());
    const at::Tensor y = summed_within(x, ctx->saved_data["depth"].toInt() - 1, world);
    torch::autograd::backward({y}, {gradients[0]});
    return {x.grad(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor summed_within(const at::Tensor& x, int64_t depth, const Communicator* world) {
  return depth == 0 ? all_sum_reduce(x, *world) : Checkpoint::apply(x, depth, reinterpret_cast<int64_t>(world));
}

TEST(Backward, nested_deeper_than_one_thread_holds_still_communicates) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    all_sum_reduce(at::ones({1}), world);
    for (const int64_t depth : {int64_t{3}, kDeep}) {
      const at::Tensor x = at::ones({3}).requires_grad_(true);
      summed_within(x, depth, &world).sum().backward();
      EXPECT_TRUE(x.grad().equal(at::full({3}, static_cast<float>(world.size()))));
    }
  });
}

TEST(Backward, does_not_let_other_threads_of_a_rank_communicate) {
  for_each_world({2}, [](const Communicator& world) {
    if (world.size() < 2) return;
    const at::Tensor x = all_sum_reduce(at::ones({3}).requires_grad_(true), world);
    std::thread([&] { EXPECT_THROW(all_sum_reduce(at::ones({3}), world), InvalidArgument); }).join();
    std::thread([&] { EXPECT_THROW(x.sum().backward(), InvalidArgument); }).join();
    x.sum().backward();
  });
}

}  // namespace
}  // namespace adjoin
