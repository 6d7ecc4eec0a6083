#include "adjoin/movement/point_to_point.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

TEST(Rotate, is_the_adjoint_of_rotating_back_with_blocks_of_different_sizes) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const auto rows = [&](int rank) { return int64_t{(rank + world.size()) % world.size()}; };
    for (const int by : {0, 1, -1, 2, 5}) {
      const int source = ((world.rank() - by) % world.size() + world.size()) % world.size();
      const std::vector<int64_t> to{rows(source), 2};
      expect_adjoint([&](const at::Tensor& x) { return rotate(x, world, by, to); }, Kind::split, Kind::split,
                     {rows(world.rank()), 2}, world);
      const at::Tensor x = at::full({2}, world.rank(), at::kDouble);
      EXPECT_TRUE(rotate(x, world, by).equal(at::full({2}, source, at::kDouble)));
    }
  });
}

TEST(Send, carries_the_gradient_back_to_the_sender) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.size() < 2) return;
    const int last = world.size() - 1;
    if (world.rank() == 0) {
      const at::Tensor x = at::arange(6, at::kDouble).view({2, 3}).t().requires_grad_(true);
      const at::Tensor sent = send(x, last, world);
      EXPECT_EQ(sent.sizes(), at::IntArrayRef{0});
      sent.sum().backward();
      EXPECT_TRUE(x.grad().equal(2 * x.detach()));
    } else if (world.rank() == last) {
      const at::Tensor nothing = at::empty({0}, at::kDouble).requires_grad_(true);
      const at::Tensor x = recv(nothing, {3, 2}, 0, world);
      EXPECT_TRUE(x.detach().equal(at::arange(6, at::kDouble).view({2, 3}).t()));
      x.square().sum().backward();
    }
  });
}

TEST(PointToPoint, carries_complex_numbers_and_their_gradients) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.size() < 2) return;
    const int next = (world.rank() + 1) % world.size(), previous = (world.rank() + world.size() - 1) % world.size();
    const auto of = [&](int rank) { return at::complex(at::full({3}, rank, at::kDouble), at::ones({3}, at::kDouble)); };
    const auto expect_twice = [&](const at::Tensor& x, const at::Tensor& y) {
      at::real(y * c10::complex<double>(0, 2)).sum().backward();
      EXPECT_TRUE(x.grad().equal(at::full_like(x, c10::complex<double>(0, -2))));
    };
    const at::Tensor x = of(world.rank()).requires_grad_(true);
    const at::Tensor y = rotate(x, world, 1);
    EXPECT_TRUE(y.detach().equal(of(previous)));
    expect_twice(x, y);

    const std::vector<int64_t> ones(static_cast<size_t>(world.size()), 1);
    const at::Tensor rows = at::stack(std::vector<at::Tensor>(ones.size(), of(world.rank()))).requires_grad_(true);
    const at::Tensor routed = all_to_all(rows, ones, ones, world);
    EXPECT_TRUE(routed.detach()[previous].equal(of(previous)));
    expect_twice(rows, routed);

    EXPECT_TRUE(rotate(at::imag(at::conj(of(world.rank()))), world, 1).equal(-at::ones({3}, at::kDouble)));
    if (world.rank() == 0) {
      const at::Tensor sent = of(7).requires_grad_(true);
      at::real(send(sent, next, world)).sum().backward();
      EXPECT_TRUE(sent.grad().equal(at::full_like(sent, c10::complex<double>(0, -2))));
    } else if (world.rank() == 1) {
      const at::Tensor came = recv(at::empty({0}, at::kComplexDouble).requires_grad_(true), {3}, 0, world);
      EXPECT_TRUE(came.detach().equal(of(7)));
      at::real(came * c10::complex<double>(0, 2)).sum().backward();
    }
  });
}

TEST(PointToPoint, refuses_shapes_and_counts_that_cannot_be) {
  const Communicator alone;
  EXPECT_THROW(recv(at::empty({0}), {-3}, 0, alone), InvalidArgument);
  EXPECT_THROW(rotate(at::ones({3}), alone, 1, std::vector<int64_t>{7}), InvalidArgument);
  EXPECT_THROW(all_to_all(at::ones({3}), {3}, {-1}, alone), InvalidArgument);
}

TEST(AllToAll, routes_rows_by_counts_that_only_the_senders_know) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    std::vector<int64_t> send;
    for (int peer = 0; peer < world.size(); ++peer) send.push_back((world.rank() + 2 * peer) % 3);
    const std::vector<int64_t> receive = exchange_counts(send, world);
    for (int peer = 0; peer < world.size(); ++peer)
      EXPECT_EQ(receive[static_cast<size_t>(peer)], (peer + 2 * world.rank()) % 3);
    int64_t rows = 0;
    for (const int64_t count : send) rows += count;
    expect_adjoint([&](const at::Tensor& x) { return all_to_all(x, send, receive, world); }, Kind::split, Kind::split,
                   {rows, 2}, world);
    const at::Tensor y = all_to_all(at::full({rows, 2}, world.rank(), at::kDouble), send, receive, world);
    int64_t begin = 0;
    for (int peer = 0; peer < world.size(); ++peer) {
      const int64_t count = receive[static_cast<size_t>(peer)];
      EXPECT_TRUE(y.narrow(0, begin, count).eq(peer).all().item<bool>());
      begin += count;
    }
    EXPECT_THROW(all_to_all(at::ones({rows + 1, 2}), send, receive, world), InvalidArgument);
  });
}

}  // namespace
}  // namespace adjoin
