#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "adjoin/comm/values.hpp"
#include "adjoin/parallel/sharded_sequential.hpp"
#include "tests/support/sequentials.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;
using torch::nn::Sequential;

/// Bytes of memory that tensors have.
int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), int64_t{0}, [](int64_t bytes, const at::Tensor& tensor) {
    return bytes + (tensor.defined() ? static_cast<int64_t>(tensor.storage().nbytes()) : 0);
  });
}

/// Notes the most memory that a module's weights and their gradients have when it is passed, forward and back.
struct WatchImpl : torch::nn::Module {
  explicit WatchImpl(int64_t& most) : most(most) {}
  at::Tensor forward(const at::Tensor& x) {
    note();
    const at::Tensor y = x * 1;
    if (y.requires_grad()) y.register_hook([this](const at::TensorBase&) { note(); });
    return y;
  }
  void note() {
    std::vector<at::Tensor> held = weights;
    for (const at::Tensor& weight : weights) held.push_back(weight.grad());
    most = std::max(most, bytes_of(held));
  }
  std::vector<at::Tensor> weights;
  int64_t& most;
};
TORCH_MODULE(Watch);

/// Counts the calls of each collective.
struct Collectives : Observer {
  void begin(const Call& call) override {
    if (call.collective) ++calls[*call.collective];
  }
  std::map<Collective, int> calls;
};

TEST(ShardedMemory, holds_shards_and_one_childs_weights) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    using torch::nn::Linear;
    int64_t most = 0;
    std::vector<Watch> watches;
    for (int i = 0; i < 3; ++i) watches.emplace_back(most);
    Sequential module = filled(
        Sequential(Linear(8, 24), watches[0], Linear(24, 12), watches[1], Linear(12, 24), watches[2], Linear(24, 3)),
        1);
    for (Watch& watch : watches) watch->weights = module->parameters();
    const int64_t largest = (24 * 12 + 24) * 8, all = bytes_of(module->parameters());
    const auto seen = std::make_shared<Collectives>();
    ShardedSequential net(module, world.observed_by(seen));
    EXPECT_EQ(bytes_of(module->parameters()), 0);
    const std::vector<int64_t> of_ranks = numbers_of_all(bytes_of(net.shards()), world);
    EXPECT_EQ(std::accumulate(of_ranks.begin(), of_ranks.end(), int64_t{0}), all);

    torch::optim::Adam optimizer(net.shards());
    for (int step = 0; step < 2; ++step) {
      seen->calls.clear();
      net.backward(mean_square(net.forward(drawn({2, 8}, step))), 2);
      if (world.size() > 1) {
        EXPECT_EQ(seen->calls[Collective::all_gather], 3 * 2 * 2 + 2 + 1) << "of the samples too";
        EXPECT_EQ(seen->calls[Collective::reduce_scatter], 4 * 2);
      }
      net.step(optimizer);
      EXPECT_LE(most, 2 * largest) << "with their gradients";
      EXPECT_GT(most, 0);
      EXPECT_EQ(bytes_of(module->parameters()), 0);
      for (const at::Tensor& weight : module->parameters()) EXPECT_FALSE(weight.grad().defined());
      for (const at::Tensor& shard : net.shards()) EXPECT_EQ(shard.storage().nbytes(), shard.nbytes());
    }
    {
      const at::NoGradGuard no_gradient;
      net.forward(drawn({2, 8}, 0));
      EXPECT_EQ(bytes_of(module->parameters()), 0);
    }
    net.forward(drawn({2, 8}, 0));  // with a backward that never comes
    net.backward(mean_square(net.forward(drawn({2, 8}, 1))), 2);
    EXPECT_EQ(bytes_of(module->parameters()), 0);
  });
}

}  // namespace
}  // namespace adjoin::parallel
