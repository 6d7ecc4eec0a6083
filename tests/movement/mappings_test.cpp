#include "adjoin/movement/mappings.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

TEST(CopyTo, is_the_adjoint_of_a_sum_over_the_group) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    expect_adjoint([&](const at::Tensor& x) { return copy_to(x, world); }, Kind::replicated, Kind::copied, {3, 5},
                   world);
  });
}

TEST(ReduceFrom, sums_forward_and_moves_nothing_backward) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    expect_adjoint([&](const at::Tensor& x) { return reduce_from(x, world); }, Kind::partial, Kind::replicated, {3, 5},
                   world);
    const at::Tensor x = at::full({2}, world.rank() + 1.0, at::kDouble);
    const double sum = world.size() * (world.size() + 1) / 2.0;
    EXPECT_TRUE(reduce_from(x, world).equal(at::full({2}, sum, at::kDouble)));
    EXPECT_EQ(x[0].item<double>(), world.rank() + 1.0) << "the input was changed";
  });
}

TEST(AllSumReduce, is_its_own_adjoint_along_each_axis_of_a_grid) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid line(world, {{"a", world.size()}, {"b", 1}});
    for (const auto& axes : {std::vector<std::string>{"a"}, {"b"}, {"a", "b"}})
      expect_adjoint([&](const at::Tensor& x) { return all_sum_reduce(x, line, axes); }, Kind::partial, Kind::copied,
                     {2, 3}, world);
    if (world.size() % 2 != 0) return;
    const Grid square(world, {{"a", 2}, {"b", world.size() / 2}});
    expect_adjoint([&](const at::Tensor& x) { return all_sum_reduce(x, square, {"a"}); }, Kind::partial, Kind::copied,
                   {2, 3}, world);
  });
}

TEST(AllReduceMovements, keep_zero_volume_tensors_in_the_graph) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    expect_adjoint([&](const at::Tensor& x) { return copy_to(x, world); }, Kind::replicated, Kind::copied, {0, 5},
                   world);
    expect_adjoint([&](const at::Tensor& x) { return reduce_from(x, world); }, Kind::partial, Kind::replicated, {0},
                   world);
  });
}

TEST(AllReduceMovements, leave_a_tensor_that_needs_no_gradient_without_one) {
  for_each_world({2}, [](const Communicator& world) {
    EXPECT_FALSE(copy_to(at::ones({2}), world).requires_grad());
    EXPECT_FALSE(reduce_from(at::ones({2}), world).requires_grad());
  });
}

TEST(Movement, names_its_callers_line_in_a_deadlock_forward_and_in_backward) {
  constexpr int kForward = __LINE__ + 4, kBackward = __LINE__ + 9;
  const auto message = failure_of<CommunicationError>(2, [](const Communicator& world) {
    float x = 0;
    if (world.rank() == 0)
      reduce_from(at::ones({2}), world);
    else
      world.recv(buffer(x), 0);
  });
  const auto in_backward = failure_of<CommunicationError>(2, [](const Communicator& world) {
    const at::Tensor y = copy_to(at::ones({2}).requires_grad_(), world);
    float x = 0;
    if (world.rank() == 0)
      y.sum().backward();
    else
      world.recv(buffer(x), 0);
  });
  EXPECT_NE(message.find("mappings_test.cpp:" + std::to_string(kForward)), std::string::npos) << message;
  EXPECT_NE(in_backward.find("mappings_test.cpp:" + std::to_string(kBackward)), std::string::npos) << in_backward;
}

}  // namespace
}  // namespace adjoin
