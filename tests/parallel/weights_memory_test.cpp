#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "adjoin/comm/values.hpp"
#include "adjoin/parallel/weights.hpp"
#include "tests/support/sequentials.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;
using torch::nn::Sequential;

/// Bytes of memory that tensors have.
int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), int64_t{0}, [](int64_t bytes, const at::Tensor& tensor) {
    const bool has_memory = tensor.defined() && tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
    return bytes + (has_memory ? static_cast<int64_t>(tensor.nbytes()) : 0);
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

TEST(WeightsMemory, is_that_of_shards_and_two_units) {
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
    Weights net(*module, world.observed_by(seen), {.zero = 3, .unit_bytes = 0});
    EXPECT_EQ(bytes_of(module->parameters()), 0);
    const std::vector<int64_t> of_ranks = numbers_of_all(bytes_of(net.parts()), world);
    EXPECT_EQ(std::accumulate(of_ranks.begin(), of_ranks.end(), int64_t{0}), all);

    torch::optim::Adam optimizer(net.parts());
    for (int step = 0; step < 2; ++step) {
      seen->calls.clear();
      net.backward(mean_square(module->forward(drawn({2, 8}, step))), 2);
      if (world.size() > 1) {
        // In the second step backward knows that it reads one unit that is no longer whole, and not the first one.
        const int units = step == 0 ? 4 + 4 : 4 + 1;
        EXPECT_EQ(seen->calls[Collective::all_gather], units + 3) << "of the samples, and at the end of each pass";
        EXPECT_EQ(seen->calls[Collective::reduce_scatter], 4);
      }
      net.step(optimizer);
      EXPECT_LE(most, 3 * largest) << "two units and the gradients of one";
      EXPECT_GT(most, 0);
      EXPECT_EQ(bytes_of(module->parameters()), 0);
      for (const at::Tensor& weight : module->parameters()) EXPECT_FALSE(weight.grad().defined());
    }
    {
      const at::NoGradGuard no_gradient;
      module->forward(drawn({2, 8}, 0));
      EXPECT_TRUE(net.any(true));
      EXPECT_EQ(bytes_of(module->parameters()), 0);
    }
    module->forward(drawn({2, 8}, 0));  // with a backward that never comes
    net.backward(mean_square(module->forward(drawn({2, 8}, 1))), 2);
    EXPECT_EQ(bytes_of(module->parameters()), 0);
  });
}

}  // namespace
}  // namespace adjoin::parallel
