#include "adjoin/movement/halo.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/distributed_tensor.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/pieces.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

/// One worker's padded tensor by LibTorch, and by indices where it has no such padding for so many dims.
at::Tensor padded(at::Tensor x, const std::vector<Window>& windows, const std::vector<Edges>& edges) {
  for (size_t dim = 0; dim < windows.size(); ++dim) {
    const int64_t n = x.size(static_cast<int64_t>(dim));
    const auto source = [n](int64_t i, Padding padding, int64_t row_of_value) {
      if (i >= 0 && i < n) return i;
      if (padding == Padding::circular) return (i + n) % n;
      if (padding == Padding::replicate) return std::clamp<int64_t>(i, 0, n - 1);
      if (padding == Padding::reflect) return i < 0 ? -i : 2 * (n - 1) - i;
      return row_of_value;
    };
    std::vector<int64_t> sources, pads(2 * windows.size(), 0);
    for (int64_t i = -windows[dim].before; i < n + windows[dim].after; ++i)
      sources.push_back(source(i, i < 0 ? edges[dim].before : edges[dim].after, i < 0 ? n : n + 1));
    pads[2 * (windows.size() - 1 - dim) + 1] = 1;
    x = at::constant_pad_nd(at::constant_pad_nd(x, pads, edges[dim].value_before), pads, edges[dim].value_after);
    x = x.index_select(static_cast<int64_t>(dim), at::tensor(sources, at::kLong));
  }
  return x;
}

/// Sums of windows, as a convolution with these weights would make them; any number of dims.
at::Tensor windowed(at::Tensor x, const std::vector<Window>& windows) {
  for (size_t d = 0; d < windows.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    const Window& window = windows[d];
    const int64_t outputs = x.size(dim) < window.extent() ? 0 : (x.size(dim) - window.extent()) / window.stride + 1;
    at::Tensor y = x.narrow(dim, 0, outputs) * 0;
    for (int64_t tap = 0; outputs > 0 && tap < window.kernel; ++tap)
      y = y + (tap + 2) * x.slice(dim, tap * window.dilation, tap * window.dilation + (outputs - 1) * window.stride + 1,
                                  window.stride);
    x = y;
  }
  return x;
}

/// Circular, or another padding at each end; zeros may be another value.
Edges random_edges(std::mt19937& random) {
  if (random() % 4 == 0) return Padding::circular;
  Edges edges(static_cast<Padding>(random() % 3), static_cast<Padding>(random() % 3));
  if (edges.before == Padding::zeros && random() % 2 == 0) edges.value_before = 2;
  if (edges.after == Padding::zeros && random() % 2 == 0) edges.value_after = -3;
  return edges;
}

/// A copy of x with room around it: what an exchange may complete.
std::pair<at::Tensor, at::Tensor> in_room(const at::Tensor& x, const std::vector<Pads>& room) {
  std::vector<int64_t> shape = x.sizes().vec();
  for (size_t d = 0; d < room.size(); ++d) shape[d] += room[d].left + room[d].right;
  const at::Tensor memory = at::full(shape, std::nan(""), x.options());
  const at::Tensor part = within(memory, room);
  part.copy_(x);
  return {part, memory};
}

Window random_window(std::mt19937& random, int64_t size, const Edges& edges) {
  const auto number = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  const auto at_most = [&](Padding padding) {
    return std::min<int64_t>(4, padding == Padding::reflect ? size - 1 : padding == Padding::circular ? size : 5);
  };
  Window window{.before = number(0, at_most(edges.before)), .after = number(0, at_most(edges.after))};
  window.stride = number(1, 3);
  window.dilation = number(1, 2);
  const int64_t room = size + window.before + window.after;
  window.kernel = number(1, std::min<int64_t>(5, (room - 1) / window.dilation + 1));
  return window;
}

TEST(HaloExchange, gives_every_worker_the_inputs_of_its_outputs_in_every_padding) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    std::mt19937 random(static_cast<unsigned>(world.size()));
    for (int trial = 0; trial < 90; ++trial) {
      const int rows = world.size() % 2 == 0 && trial % 2 == 0 ? 2 : 1;
      const Grid grid(world, {{"a", rows}, {"b", world.size() / rows}});
      std::vector<Edges> edges(3, static_cast<Padding>(trial % 4));
      if (trial >= 40) edges = {random_edges(random), random_edges(random), Edges()};
      const std::vector<int64_t> shape{2 + static_cast<int64_t>(random() % 8), 2 + static_cast<int64_t>(random() % 12),
                                       2};
      const std::vector<Window> windows{random_window(random, shape[0], edges[0]),
                                        random_window(random, shape[1], edges[1]), Window{}};
      const Layout layout(
          grid.shape(), shape,
          {{Split::balanced(shape[0], rows, 0), {"a"}}, {Split::balanced(shape[1], world.size() / rows, 1), {"b"}}});
      SCOPED_TRACE("trial " + std::to_string(trial) + ", " + layout.to_string());
      const at::Tensor global = random_tensor(shape, Kind::replicated, world, trial);
      at::Tensor reference = global.clone().requires_grad_(true);
      const at::Tensor expected = windowed(padded(reference, windows, edges), windows);

      const Layout cut = plan_halo(layout, windows, Padding::zeros).outputs;
      const HaloExchange exchange(layout, plan_halo(shape, cut, windows, edges), grid);
      const at::Tensor x = piece_of(global, layout, world.rank()).requires_grad_(true);
      const auto [part, memory] = in_room(x.detach(), exchange.room());
      EXPECT_TRUE(exchange(part, memory).equal(exchange(x.detach())));
      EXPECT_TRUE(part.equal(x.detach()));
      const at::Tensor y = windowed(exchange(x), windows);
      const Layout& outputs = exchange.outputs();
      ASSERT_EQ(outputs.shape(), expected.sizes().vec());
      const at::Tensor mine = piece_of(expected.detach(), outputs, world.rank());
      if (mine.numel() > 0) {
        EXPECT_TRUE(at::allclose(y, mine, 1e-12, 1e-12));
      }
      const at::Tensor weights = random_tensor(expected.sizes(), Kind::replicated, world, trial + 1000);
      (expected * weights).sum().backward();
      (mine.numel() > 0 ? (y * piece_of(weights, outputs, world.rank())).sum() : y.sum() * 0).backward();
      EXPECT_TRUE(at::allclose(x.grad(), piece_of(reference.grad(), layout, world.rank()), 1e-12, 1e-12));
    }
  });
}

TEST(HaloExchange, completes_an_input_in_the_room_around_it_without_a_copy) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    const Layout layout(grid.shape(), {8, 3}, {{Split::balanced(8, world.size(), 0), {"a"}}});
    const Window around{.kernel = 3, .before = 1, .after = 1};
    const HaloExchange exchange(layout, plan_halo(layout, {around, around}, Padding::zeros), grid, /*fill=*/5);
    const at::Tensor x = random_tensor(layout.shape_on(world.rank()), Kind::split, world, 1);
    EXPECT_EQ(exchange.room(), (std::vector<Pads>{{1, 1}, {1, 1}}));
    const auto [part, memory] = in_room(x, exchange.room());
    const at::Tensor expected = exchange(x), y = exchange(part, memory);
    EXPECT_TRUE(y.equal(expected));
    EXPECT_EQ(y.data_ptr(), memory.data_ptr());
    EXPECT_FALSE(exchange(x, memory).is_alias_of(memory));  // x is not in it
    const HaloExchange wider(
        layout, plan_halo(layout, {Window{.kernel = 5, .before = 2, .after = 2}, around}, Padding::zeros), grid);
    EXPECT_TRUE(wider(part, memory).equal(wider(x)));  // for which the room is too small
    EXPECT_TRUE(exchange(x, x).equal(expected));
    const at::Tensor leaf = part.detach().requires_grad_(true), z = exchange(leaf, memory);
    EXPECT_FALSE(z.is_alias_of(memory));  // it has a gradient
    EXPECT_TRUE(z.requires_grad() && z.equal(expected));
  });
}

TEST(HaloExchange, fetches_corners_in_one_exchange_and_leaves_out_what_is_not_needed) {
  struct Count : Observer {
    void begin(const Call& call) override { calls += call.name == "exchange"; }
    int calls = 0;
  };
  for_each_world({4}, [](const Communicator& world) {
    if (world.size() != 4) return;
    const auto count = std::make_shared<Count>();
    const Grid grid(world.observed_by(count), {{"a", 2}, {"b", 2}});
    const Layout layout(grid.shape(), {6, 6}, {{Split::balanced(6, 2, 0), {"a"}}, {Split::balanced(6, 2, 1), {"b"}}});
    const Window around{.kernel = 3, .before = 1, .after = 1};
    const HaloExchange exchange(layout, {around, around}, Padding::zeros, grid);
    const at::Tensor global = at::arange(36).view({6, 6}).to(at::kDouble);
    const at::Tensor y = exchange(piece_of(global, layout, world.rank()));
    EXPECT_EQ(count->calls, 1);
    const int64_t row = grid.coordinate("a") * 3, column = grid.coordinate("b") * 3;
    EXPECT_TRUE(y.equal(at::constant_pad_nd(global, {1, 1, 1, 1}).narrow(0, row, 5).narrow(1, column, 5)));
    // A window that looks backward alone needs the last rows of no worker's own block.
    const HaloExchange back(layout, {Window{.kernel = 1, .stride = 2}, Window{}}, Padding::zeros, grid);
    EXPECT_EQ(back(piece_of(global, layout, world.rank())).size(0), grid.coordinate("a") == 0 ? 3 : 1);
  });
}

TEST(HaloExchange, sends_one_message_to_each_neighbour_where_other_dims_are_circular_and_whole) {
  struct Sends : Observer {
    void begin(const Call& call) override {
      for (const Message& message : call.messages) sends += message.is_send() ? 1 : 0;
    }
    int sends = 0;
  };
  for_each_world({2, 4}, [](const Communicator& world) {
    const auto count = std::make_shared<Sends>();
    const Grid grid(world.observed_by(count), {{"a", world.size()}});
    const Layout layout(grid.shape(), {8, 5, 6}, {{Split::balanced(8, world.size(), 0), {"a"}}});
    const Window around{.kernel = 3, .before = 1, .after = 1};
    const HaloExchange exchange(layout, std::vector(3, around), Padding::circular, grid);
    exchange(at::ones(layout.shape_on(world.rank()), at::kDouble));
    EXPECT_EQ(count->sends, 2);  // to the left and to the right
  });
}

TEST(HaloExchange, brings_inputs_of_any_layout_to_given_outputs_and_pads_them_with_any_number) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    const Layout columns(grid.shape(), {6, 5}, {{Split::balanced(5, world.size(), 1), {"a"}}});
    const GridShape two({{"b", 2}}, {1, 0});
    const Layout outputs(two, {6, 5}, {{Split::at({0, 2}, 6, 0), {"b"}}});
    const Window around{.kernel = 3, .before = 1, .after = 1};
    const at::Tensor global = at::arange(30).view({6, 5}).to(at::kDouble);
    const HaloExchange exchange(columns, plan_halo({6, 5}, outputs, {around, Window{}}, Padding::zeros), grid,
                                /*fill=*/-1);
    const at::Tensor y = exchange(piece_of(global, columns, world.rank()));
    const at::Tensor padded = at::constant_pad_nd(global, {0, 0, 1, 1}, -1);
    if (world.rank() == 0) {
      EXPECT_TRUE(y.equal(padded.narrow(0, 2, 6)));
    } else if (world.rank() == 1) {
      EXPECT_TRUE(y.equal(padded.narrow(0, 0, 4)));
    } else {
      EXPECT_EQ(y.numel(), 0);
    }
  });
}

TEST(HaloExchange, of_complex_numbers_is_that_of_their_parts) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    const Layout layout(grid.shape(), {6, 4}, {{Split::balanced(6, world.size(), 0), {"a"}}});
    const Window around{.kernel = 3, .before = 1, .after = 1};
    const HaloExchange exchange(layout, {around, around}, Padding::circular, grid);
    const at::Tensor real = piece_of(at::arange(24).view({6, 4}).to(at::kDouble), layout, world.rank());
    const at::Tensor y = exchange(at::complex(real, 2 * real));
    EXPECT_TRUE(at::real(y).equal(exchange(real)));
    EXPECT_TRUE(at::imag(y).equal(2 * exchange(real)));
    EXPECT_TRUE(exchange(at::imag(at::complex(real, real).conj())).equal(-exchange(real)));
  });
}

TEST(HaloExchange, refuses_windows_that_do_not_fit) {
  const Grid grid(Communicator(), {{"a", 1}});
  const Layout layout(grid.shape(), {4}, {{Split::balanced(4, 1, 0), {"a"}}});
  EXPECT_THROW(HaloExchange(layout, {}, Padding::zeros, grid), InvalidArgument);
  EXPECT_THROW(HaloExchange(layout, {Window{.kernel = 5}}, Padding::zeros, grid), InvalidArgument);
  EXPECT_THROW(HaloExchange(layout, {Window{.kernel = 3, .before = 4}}, Padding::reflect, grid), InvalidArgument);
}

}  // namespace
}  // namespace adjoin
