// Tables that are only looked up, in a module whose weights are sharded.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/weights.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/sequentials.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;
using torch::nn::Sequential;

constexpr int64_t kTableRows = 1000, kTableColumns = 8, kTableBytes = kTableRows * kTableColumns * 8;

Sequential words_net(int64_t seed) {
  return filled(Sequential(torch::nn::Embedding(kTableRows, kTableColumns), torch::nn::Linear(kTableColumns, 2)), seed);
}

at::Tensor ids_of(int64_t rank, int64_t step) {
  return (drawn({4}, 10 * step + rank).abs() * 500).to(at::kLong).remainder(kTableRows);
}

/// Adds up what all calls receive, and what all-to-alls do.
struct Traffic : Observer {
  void begin(const Call& call) override {
    bytes += call.out.bytes();
    for (const Message& message : call.messages)
      if (!message.is_send()) bytes += message.buffer.bytes();
    if (call.collective == Collective::all_to_all) of_look_ups += call.out.bytes();
  }
  int64_t bytes = 0, of_look_ups = 0;
};

bool has_memory(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks() != nullptr;
}

TEST(WeightRows, are_all_of_a_table_that_moves_from_the_second_step_on) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const auto traffic = std::make_shared<Traffic>();
    Sequential module = words_net(world.rank() * 7), single = words_net(0);
    Weights weights(*module, world.observed_by(traffic), {.zero = 3, .unit_bytes = 0});
    const auto options = torch::optim::SGDOptions(0.5).momentum(0.9);
    torch::optim::SGD optimizer(weights.parts(), options), reference(single->parameters(), options);
    const at::Tensor table = module->parameters()[0];
    for (int64_t step = 0; step < 4; ++step) {
      traffic->bytes = 0;
      const at::Tensor vectors = module->forward(ids_of(world.rank(), step));
      if (step > 0) EXPECT_FALSE(has_memory(table));
      weights.backward(mean_square(vectors), 4);
      EXPECT_FALSE(table.grad().defined());
      EXPECT_EQ(weights.parts()[0].grad().size(0), weights.parts()[0].size(0));
      weights.step(optimizer, /*clip=*/0.5);
      if (world.size() > 1 && step == 0) EXPECT_GT(traffic->bytes, kTableBytes) << "when it may be read in any way";
      if (step > 0) EXPECT_LT(traffic->bytes, kTableBytes / 10);

      reference.zero_grad();
      std::vector<at::Tensor> all;
      for (int rank = 0; rank < world.size(); ++rank) all.push_back(ids_of(rank, step));
      mean_square(single->forward(at::cat(all))).backward();
      double squares = 0;
      for (const at::Tensor& weight : single->parameters()) squares += weight.grad().square().sum().item<double>();
      for (const at::Tensor& weight : single->parameters())
        if (squares > 0.25) weight.mutable_grad().mul_(0.5 / std::sqrt(squares));
      reference.step();
      const nn::State found = nn::gather_state(weights.parameters());
      const auto expected = single->named_parameters();
      for (const auto& [name, tensor] : found)
        EXPECT_TRUE(at::allclose(tensor, expected[name], 1e-11, 1e-11)) << name << " in step " << step;
    }
  });
}

TEST(WeightRows, have_the_bits_of_dense_gradients_in_every_type_of_the_wire) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const std::optional<at::ScalarType> wire : {std::optional<at::ScalarType>(), std::optional(at::kBFloat16)}) {
      std::vector<at::Tensor> gradients;
      for (const int zero : {2, 3}) {
        Sequential module = words_net(0);
        module->to(at::kFloat);
        Weights weights(*module, world.deterministic(), {.zero = zero, .wire = wire, .unit_bytes = 0});
        for (const bool is_last : {false, true})
          weights.backward(mean_square(module->forward(ids_of(world.rank(), is_last ? 1 : 0))), 4, {.last = is_last});
        gradients.push_back(weights.parts()[0].grad());
      }
      EXPECT_TRUE(gradients[0].equal(gradients[1]));
    }
  });
}

TEST(WeightRows, are_those_of_each_backward_through_one_graph) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    Sequential module = words_net(0), single = words_net(0);
    Weights weights(*module, world, {.zero = 3, .unit_bytes = 0});
    const at::Tensor loss = mean_square(module->forward(ids_of(0, 0))),
                     of_one = mean_square(single->forward(ids_of(0, 0)));
    weights.backward(loss, 4, {.last = false, .retain_graph = true});
    weights.backward(loss, 4);
    of_one.backward();
    const auto [first, last] = Split::balanced(kTableRows, world.size(), 0).ranges(world.rank())[0];
    const at::Tensor expected = single->parameters()[0].grad().slice(0, first, last);
    EXPECT_TRUE(at::allclose(weights.parts()[0].grad(), expected, 1e-11, 1e-12)) << "the mean of equal halves";
  });
}

TEST(WeightRows, are_taken_from_a_table_that_is_whole) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto traffic = std::make_shared<Traffic>();
    Sequential module = words_net(0), single = words_net(0);
    Weights weights(*module, world.observed_by(traffic), {.zero = 3, .unit_bytes = 0});
    weights.use(module->parameters()[0]);
    const at::Tensor ids = ids_of(0, 0), vectors = module->forward(ids);
    EXPECT_LE(traffic->of_look_ups, world.size() * 8) << "the counts of a look-up without ids";
    EXPECT_TRUE(vectors.equal(single->forward(ids)));
    weights.backward(mean_square(vectors), 4);
    mean_square(single->forward(ids)).backward();
    const auto [first, last] = Split::balanced(kTableRows, world.size(), 0).ranges(world.rank())[0];
    EXPECT_TRUE(
        at::allclose(weights.parts()[0].grad(), single->parameters()[0].grad().slice(0, first, last), 1e-11, 1e-12));
  });
}

TEST(WeightRows, are_refused_by_name_and_pass_hooks_by) {
  for_each_world({1, 2}, [](const Communicator& world) {
    Sequential module = words_net(0);
    Weights weights(*module, world, {.zero = 3, .unit_bytes = 0});
    EXPECT_EQ(thrown_by<InvalidArgument>([&] {
                module->forward(at::tensor({0, 1000}, at::kLong));
              }),
              "'0.weight': expected ids from 0 to 999, got 1000");
    int64_t rows = 0;
    module->parameters()[0].register_hook([&](const at::TensorBase& gradient) { rows = gradient.size(0); });
    weights.backward(mean_square(module->forward(ids_of(0, 0))), 4);
    EXPECT_EQ(rows, kTableRows) << "of the whole gradient";
  });
}

}  // namespace
}  // namespace adjoin::parallel
