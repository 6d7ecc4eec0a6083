#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tests/support/failures.hpp"
#include "tests/support/global_tensors.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::written_views {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;

/// Layouts along one axis: whole, and with a dim cut.
Layout whole_layout(const Grid& grid, std::vector<int64_t> shape) {
  return Layout(grid.shape(), std::move(shape));
}
Layout cut_layout(const Grid& grid, const std::vector<int64_t>& shape, int64_t dim) {
  return Layout(grid.shape(), shape,
                {{Split::balanced(shape[static_cast<size_t>(dim)], grid.world().size(), dim), {"a"}}});
}

at::Tensor numbers(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return (at::arange(count, at::kDouble) * 0.7).sin().view(shape);
}

TEST(WrittenViews, change_what_they_are_views_of) {
  const Code code = [](const Tensors& x) {
    at::Tensor y = x[0] * 2;
    y.slice(0, 1, 3).mul_(x[1]);
    y.transpose(0, 1).add_(1);
    y.unsqueeze(0).tanh_();
    at::Tensor z = at::zeros_like(y);
    z.slice(1, 0, 2).copy_(y.slice(1, 0, 2));
    z.view({-1}).view({4, 6}).sin_();
    return y * z + x[0];
  };
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    const at::Tensor x = numbers({4, 6}), weight = numbers({6});
    for (const Layout& layout :
         {whole_layout(grid, {4, 6}), cut_layout(grid, {4, 6}, 0), cut_layout(grid, {4, 6}, 1)}) {
      if (layout.split(1).parts() == 1)
        expect_as_plain("written", code, {x, weight}, {layout, whole_layout(grid, {6})}, grid);
      expect_as_plain(
          "written in parts",
          [](const Tensors& t) {
            at::Tensor y = t[0] * 2;
            y.slice(0, 1, 3).mul_(t[1]);
            y.transpose(0, 1).add_(t[0].transpose(0, 1));
            return y * t[1] + t[0];
          },
          {x, weight}, {layout, cut_layout(grid, {6}, 0)}, grid);
    }
  });
}

TEST(WrittenViews, have_second_derivatives_where_some_have_nothing) {
  const Code code = [](const Tensors& x) {
    at::Tensor y = at::matmul(x[0], x[1]).view({3, 2, 3});
    y += x[2];
    return at::matmul(y, at::matmul(y.reshape({6, 3}).t(), y.reshape({6, 3})));
  };
  for_each_world({2, 3, 4}, [&](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    const Layout rows(grid.shape(), {3, 4}, {{Split::balanced(3, world.size(), 0, 3), {"a"}}});
    expect_as_plain("written", code, {numbers({3, 4}), numbers({4, 6}), numbers({3})},
                    {rows, cut_layout(grid, {4, 6}, 1), whole_layout(grid, {3})}, grid);
  });
}

TEST(WrittenViews, that_are_copies_are_refused) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    at::Tensor x = global_leaf(numbers({4, 6}), cut_layout(grid, {4, 6}, 1), grid) * 1;
    const auto refused = [](auto function) { return thrown_by<InvalidArgument>(function); };
    EXPECT_THAT(refused([&] { x.view({3, 8}).add_(1); }), HasSubstr("aten::add_: expected a tensor of its own memory"));
    EXPECT_THAT(refused([&] { x.select(1, 2).fill_(0); }),
                HasSubstr("aten::fill_: expected a tensor of its own memory"));
    EXPECT_THAT(refused([&] { x.diagonal().zero_(); }), HasSubstr("aten::zero_: expected a tensor of its own memory"));
    EXPECT_THAT(refused([&] { x.slice(1, 0, 6, 2).view({-1}).mul_(2); }), HasSubstr("aten::mul_: expected a tensor"));
    const at::Tensor other = x.view({3, 8}), again = x.view({3, 8});
    const at::Tensor alone = (x * 2).view({3, 8}), one = x.mul(3), first = one.view({3, 8}), second = one.view({3, 8});
    EXPECT_LT(largest_error(whole(alone.add_(1)), whole(x).view({3, 8}) * 2 + 1), 1e-15);
    EXPECT_THAT(refused([&] { first.add_(1); }), HasSubstr("expected a tensor of its own memory"));
    (void)again;
    (void)second;
    EXPECT_LT(largest_error(whole(other.clone().add_(1)), whole(x).view({3, 8}) + 1), 1e-15);
    x.mul_(2);
    EXPECT_THAT(refused([&] { (void)(other + 1); }), HasSubstr("expected a view whose memory was not written"));
  });
  for_each_world({1}, [](const Communicator& world) {  // nothing moves, and they are views
    if (world.size() > 1) return;
    const Grid grid(world, {{"a", 1}});
    at::Tensor x = global_leaf(numbers({4, 6}), cut_layout(grid, {4, 6}, 1), grid).detach();
    x.view({3, 8}).add_(1);
    x.diagonal().zero_();
    at::Tensor expected = (numbers({4, 6}) + 1);
    expected.diagonal().zero_();
    EXPECT_LT(largest_error(whole(x), expected), 1e-15);
  });
}

TEST(WrittenViews, do_not_change_what_was_moved_before) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    const at::Tensor plain = numbers({4, 6});
    for (const bool is_cut : {false, true}) {
      const at::Tensor x =
          global_leaf(plain, is_cut ? cut_layout(grid, {4, 6}, 1) : whole_layout(grid, {4, 6}), grid).detach() * 1;
      if (is_cut && world.size() > 1) {
        whole(x).mul_(7);  // the user's own copy
        EXPECT_LT(largest_error(whole(x), plain), 1e-15);
        EXPECT_LT(largest_error(whole(x.cumsum(1)), plain.cumsum(1)), 1e-14);
      }
      at::Tensor y = x * 1;
      const at::Tensor before = y.cumsum(1);
      y.add_(1);  // what it was moved to is old
      EXPECT_LT(largest_error(whole(y.cumsum(1)), (plain + 1).cumsum(1)), 1e-14);
      y.slice(0, 0, 1).add_(1);
      at::Tensor expected = plain + 1;
      expected.slice(0, 0, 1).add_(1);
      EXPECT_LT(largest_error(whole(y.cumsum(1)), expected.cumsum(1)), 1e-14);
      EXPECT_LT(largest_error(whole(before), plain.cumsum(1)), 1e-14);
    }
  });
}

TEST(WrittenViews, moved_without_a_graph_are_moved_again_with_one) {
  const Code code = [](const Tensors& x) {
    const at::Tensor y = x[0] * 2;
    {
      const at::NoGradGuard no_gradient;
      (void)y.cumsum(1);
    }
    return y.cumsum(1) * x[0];
  };
  for_each_world({1, 2, 3}, [&](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    expect_as_plain("moved", code, {numbers({4, 6})}, {cut_layout(grid, {4, 6}, 1)}, grid);
  });
}

TEST(WrittenViews, of_sums_that_are_open) {
  const Code code = [](const Tensors& x) {
    at::Tensor y = at::matmul(x[0], x[1]);
    y.relu_();
    at::Tensor z = at::matmul(x[0], x[1]);
    z += x[2];
    z.div_(at::scalar_tensor(0.3, at::kDouble), "floor");
    at::Tensor w = at::matmul(x[0], x[1]) * 3;
    w.masked_fill_(y > 0.1, 0.5).add_(y).mul_(x[2]);
    const at::Tensor more = at::matmul(x[0], x[1]) + 1;
    return y + w * z - 2 * more + at::where(y > 0, z, w);
  };
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    expect_as_plain("open", code, {numbers({4, 6}), numbers({6, 5}), numbers({5})},
                    {cut_layout(grid, {4, 6}, 1), cut_layout(grid, {6, 5}, 0), whole_layout(grid, {5})}, grid);
  });
}

TEST(Rules, tell_calls_apart_that_differ_in_a_type_or_in_none) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    const at::Tensor plain = numbers({6, 4});
    const at::Tensor x = global_leaf(plain, cut_layout(grid, {6, 4}, 0), grid).detach();
    const auto same = [](const at::Tensor& found, const at::Tensor& expected) {
      EXPECT_LT(largest_error(whole(found), expected), 1e-13);
    };
    same(x.slice(0, std::nullopt, 4), plain.slice(0, std::nullopt, 4));
    same(x.slice(0, 1, 4), plain.slice(0, 1, 4));
    same(x.slice(0, std::nullopt, 4), plain.slice(0, std::nullopt, 4));
    same(x.argmax(1), plain.argmax(1));
    same(x.argmax(), plain.argmax());
    const at::Tensor places = at::tensor({1, 0, 1, 1, 0, 1}, at::kLong), mask = places.to(at::kBool);
    same(x.index({places}), plain.index({places}));
    same(x.index({mask}), plain.index({mask}));
    same(at::constant_pad_nd(x, {0, 0, 1, -1}), at::constant_pad_nd(plain, {0, 0, 1, -1}));
    same(at::constant_pad_nd(x, {1, -1}), at::constant_pad_nd(plain, {1, -1}));
    // Sums that are open are taken before what rounds.
    const at::Tensor sums = x.sum(0), plain_sums = plain.sum(0);
    same(x.sum(0).to(at::kLong), plain_sums.to(at::kLong));
    same(at::div(x.sum(0), 0.3, "trunc"), at::div(plain_sums, 0.3, "trunc"));
    same(x.sum(0).sum(at::kLong), plain_sums.sum(at::kLong));
    at::Tensor numbers_of = at::zeros({4}, at::kLong);
    at::Tensor whole_numbers = global({numbers_of.clone(), whole_layout(grid, {4}), grid});
    whole_numbers.copy_(x.sum(0));
    same(whole_numbers, plain_sums.to(at::kLong));
    same(x.mean(), plain.mean());
    same(at::embedding(x, places, 1, true), at::embedding(plain, places, 1, true));
  });
}

}  // namespace
}  // namespace adjoin::written_views
