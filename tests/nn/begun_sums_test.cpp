// The sums of inputs' gradients that linear layers begin before the gradients of their weights.

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/postponed.hpp"
#include "adjoin/nn/linear.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/hosts_backend.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

using Events = std::vector<std::string>;
thread_local Events* events_of_thread = nullptr;

/// Notes the calls and waits of this rank, and the products that it computes, in their order.
class EventOrder final : public Observer {
 public:
  void begin(const Call& call) override {
    if (!call.is_begun && call.name == "all_gather" && is_checked) return;  // by which movements are compared
    events.push_back((call.is_begun ? "begin " : "") + std::string(call.name));
  }
  void begin_wait(const Call* begun) override { events.push_back("wait " + std::string(begun->name)); }

  template <class Backward>
  void see(const Backward& backward) {
    events.clear();
    events_of_thread = &events;
    const auto note = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
      if (std::string(function.name()) == "aten::mm") events_of_thread->push_back("product");
      return nullptr;
    };
    const at::CallbackHandle handle =
        at::addThreadLocalCallback(at::RecordFunctionCallback(note).scopes({at::RecordScope::FUNCTION}));
    const auto end = c10::make_scope_exit([&] { at::removeCallback(handle); });
    backward();
  }

  bool is_checked = false;
  Events events;
};

/// A call that has ended when its rank waits is not waited for: MPI may be so quick.
void expect_order(const Events& found, Events expected) {
  Events seen;
  for (const std::string& event : expected)
    if (!event.starts_with("wait") || std::ranges::count(found, event) > 0) seen.push_back(event);
  EXPECT_EQ(found, seen);
}

struct Column {
  at::Tensor x, weight, bias;

  Column(const Communicator& world, int64_t rows, Kind of_rows)
      : x(random_tensor({rows, 6}, of_rows, world).requires_grad_()),
        weight(random_tensor({4, 6}, Kind::split, world, 1).requires_grad_()),
        bias(random_tensor({4}, Kind::split, world, 2).requires_grad_()) {}
};

TEST(BegunSums, of_a_column_parallel_layer_go_on_beside_the_gradients_of_its_weights) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const auto order = std::make_shared<EventOrder>();
    order->is_checked = world.checked();
    const Column tensors(world, 5, Kind::replicated);
    const at::Tensor y =
        column_parallel_linear(tensors.x, tensors.weight, tensors.bias, between_hosts(world).observed_by(order));
    order->see([&] { y.sum().backward(); });
    expect_order(order->events, {"product", "begin all_reduce", "product", "wait all_reduce"});
  });
}

TEST(BegunSums, of_split_rows_go_on_beside_the_products) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const auto order = std::make_shared<EventOrder>();
    const Split rows = Split::balanced(7, world.size(), 0);
    const Column tensors(world, rows.size(world.rank()), Kind::split);
    const at::Tensor y =
        column_parallel_linear(tensors.x, tensors.weight, tensors.bias, between_hosts(world).observed_by(order), rows);
    order->see([&] { y.sum().backward(); });
    expect_order(order->events, {"begin all_gather", "product", "begin reduce_scatter", "wait all_gather", "product",
                                 "wait reduce_scatter"});
  });
}

TEST(BegunSums, are_blocking_calls_on_one_host) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    if (world.backend()->spans_hosts()) return;
    const auto order = std::make_shared<EventOrder>();
    order->is_checked = world.checked();
    const Communicator group = world.observed_by(order);
    const Column whole(world, 5, Kind::replicated);
    const at::Tensor y = column_parallel_linear(whole.x, whole.weight, whole.bias, group);
    order->see([&] { y.sum().backward(); });
    EXPECT_EQ(order->events, (Events{"product", "product", "all_reduce"}));

    const Split rows = Split::balanced(7, world.size(), 0);
    const Column part(world, rows.size(world.rank()), Kind::split);
    const at::Tensor of_part = column_parallel_linear(part.x, part.weight, part.bias, group, rows);
    order->is_checked = false;
    order->see([&] { of_part.sum().backward(); });
    EXPECT_EQ(order->events, (Events{"product", "reduce_scatter", "all_gather", "product"}));
  });
}

/// The gradients of a layer and its input after two passes backward through one graph, the second of which postpones.
std::vector<at::Tensor> gradients_of(const Communicator& world, const Communicator& group,
                                     const std::optional<Split>& rows, at::ScalarType type) {
  Column tensors(world, rows ? rows->size(world.rank()) : 5, rows ? Kind::split : Kind::replicated);
  const auto leaf = [&](const at::Tensor& t) { return t.detach().to(type).requires_grad_(); };
  const at::Tensor x = leaf(tensors.x), weight = leaf(tensors.weight), bias = leaf(tensors.bias);
  const at::Tensor y = column_parallel_linear(x, weight, bias, group, rows), of_y = y.detach().tanh();
  y.backward(of_y, /*retain_graph=*/true);
  PostponedGradients postponed;
  postponed.collect([&] { y.backward(of_y.cos()); });
  EXPECT_FALSE(postponed.empty());
  postponed.compute();
  return {y.detach(), x.grad(), weight.grad(), bias.grad()};
}

TEST(BegunSums, have_the_bits_of_blocking_calls) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    std::vector<std::vector<Range>> reversed;  // not in the order of the ranks
    for (int64_t part = 0; part < world.size(); ++part)
      reversed.push_back({{7 * (world.size() - 1 - part), 7 * (world.size() - part)}});
    const int64_t all = 7 * world.size();
    for (const std::optional<Split>& rows : {std::optional<Split>(), std::optional(Split::balanced(7, world.size(), 0)),
                                             std::optional(Split::of_ranges(reversed, all, 0))})
      for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
        const auto expected = gradients_of(world, world, rows, type);
        const auto found = gradients_of(world, between_hosts(world), rows, type);
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(at::equal(found[i], expected[i])) << i << " " << type << " " << (rows ? rows->to_string() : "");
      }
  });
}

TEST(BegunSums, of_complex_numbers_are_those_of_the_movement) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Column tensors(world, 5, Kind::replicated);
    const at::Tensor x = at::complex(tensors.x, tensors.x.sin()).detach().requires_grad_();
    const at::Tensor weight = at::complex(tensors.weight, tensors.weight.cos()).detach();
    column_parallel_linear(x, weight, {}, between_hosts(world)).abs().sum().backward();
    const at::Tensor expected = x.detach().clone().requires_grad_();
    copy_to(expected, world).mm(weight.t()).abs().sum().backward();
    EXPECT_TRUE(at::allclose(x.grad(), expected.grad(), 1e-12, 1e-12));
  });
}

TEST(BegunSums, are_differentiable_again) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto penalty = [&](const auto& layer) {
      const Column tensors(world, 5, Kind::replicated);
      const at::Tensor of_x = torch::autograd::grad({layer(tensors).square().sum()}, {tensors.x}, {}, std::nullopt,
                                                    /*create_graph=*/true)[0];
      return torch::autograd::grad({of_x.square().sum()}, {tensors.x, tensors.weight});
    };
    const auto found =
        penalty([&](const Column& t) { return column_parallel_linear(t.x, t.weight, t.bias, between_hosts(world)); });
    const auto expected = penalty([&](const Column& t) { return at::linear(copy_to(t.x, world), t.weight, t.bias); });
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-12, 1e-12));
  });
}

}  // namespace
}  // namespace adjoin::nn
