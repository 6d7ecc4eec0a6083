#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/utils/clip_grad.h>

#include "tests/support/failures.hpp"
#include "tests/support/global_tensors.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;
using Shapes = std::vector<std::vector<int64_t>>;

/// What code of users makes of leaves, of which it may take gradients by itself: the same from global tensors as from plain ones.
using Computed = std::function<Tensors(const Tensors& leaves)>;
void expect_same(const std::string& name, const Shapes& shapes, const Computed& code) {
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for (int draw = 0; draw < 6; ++draw) {
      Numbers numbers(static_cast<uint64_t>(draw) * 31 + name.size());
      const Grid grid(world, {{"a", world.size()}});
      Tensors plain, globals;
      std::string where = name;
      for (size_t i = 0; i < shapes.size(); ++i) {
        const at::Tensor x = random_tensor(shapes[i], Kind::replicated, world, draw * 10 + static_cast<int64_t>(i));
        const Layout layout =
            random_layout(numbers.seed(), grid.shape(), shapes[i], draw % 2 == 0 ? Kind::copied : Kind::replicated);
        where += "; " + layout.to_string();
        plain.push_back(x.clone().requires_grad_());
        globals.push_back(global_leaf(x, layout, grid));
      }
      SCOPED_TRACE(where);
      const Tensors expected = code(plain), found = code(globals);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
        if (expected[i].defined()) EXPECT_LT(largest_error(whole(found[i]), expected[i]), 1e-12) << i;
      }
    }
  });
}

at::Tensor number(double value) {
  return at::scalar_tensor(value, at::kDouble);
}

TEST(GlobalLeaves, accumulate_gradients) {
  expect_same("grad", {{4, 5}, {5}}, [](const Tensors& x) {
    (x[0] * x[1]).tanh().sum().backward();
    const at::Tensor first = x[0].grad().clone();
    (x[0] + x[1]).sum().backward();
    EXPECT_TRUE(x[0].is_leaf() && x[0].requires_grad());
    const Tensors made{first, x[0].grad().clone(), x[1].grad().clone()};
    x[0].mutable_grad().zero_();
    (x[0] * 3).sum().backward();
    x[1].mutable_grad().reset();
    return Tensors{made[0], made[1], made[2], x[0].grad(), x[1].grad()};
  });
  expect_same("shared gradient", {{4, 5}, {4, 5}}, [](const Tensors& x) {  // which two leaves get
    const at::Tensor weights = at::arange(20, at::kDouble).view({4, 5});
    ((x[0] + x[1]) * weights).sum().backward();
    x[0].mutable_grad().mul_(2);
    return Tensors{x[0].grad(), x[1].grad()};
  });
}

TEST(GlobalLeaves, have_hooks) {
  expect_same("hooks", {{4, 5}, {5}}, [](const Tensors& x) {
    bool were_alike = true;
    const bool is = is_global(x[0]);
    const auto doubled = [&were_alike, is](at::Tensor gradient) {
      were_alike = were_alike && is_global(gradient) == is;
      return gradient * 2;
    };
    x[0].register_hook(doubled);
    at::Tensor y = x[0] * x[1];
    y.register_hook(doubled);
    y.retain_grad();
    at::Tensor z = y.sin();
    z.register_hook(doubled);
    (z.sum() + y.sum()).backward();
    EXPECT_TRUE(were_alike);
    return Tensors{x[0].grad(), x[1].grad(), y.grad()};
  });
  expect_same("written after a hook", {{4, 5}, {5}}, [](const Tensors& x) {
    at::Tensor y = x[0] * x[1];
    y.register_hook([](const at::Tensor& gradient) { return gradient * 3; });
    y.retain_grad();
    y.mul_(x[1]);
    y.sin().sum().backward();
    return Tensors{x[0].grad(), x[1].grad(), y.grad()};
  });
}

TEST(GlobalLeaves, give_gradients_by_grad_and_second_derivatives) {
  expect_same("grad", {{4, 5}, {5}}, [](const Tensors& x) {
    const at::Tensor y = (x[0] * x[1]).tanh().sum();
    const auto first = torch::autograd::grad({y}, {x[0], x[1]}, {}, true, true);
    const at::Tensor penalty = first[0].square().sum() + (first[1] * x[1]).sum();
    const auto second = torch::autograd::grad({penalty}, {x[0], x[1]}, {}, true, true);
    const auto third = torch::autograd::grad({second[0].sum()}, {x[1]});
    return Tensors{first[0], first[1], second[0], second[1], third[0]};
  });
  expect_same("given gradients", {{4, 5}}, [](const Tensors& x) {
    const at::Tensor y = x[0].sin();
    return torch::autograd::grad({y}, {x[0]}, {at::arange(20, at::kDouble).view({4, 5})});
  });
}

struct Cubed : torch::autograd::Function<Cubed> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight) {
    ctx->save_for_backward({x, weight});
    return x.pow(3) * weight;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::tensor_list dy) {
    const auto saved = ctx->get_saved_variables();
    return {dy[0] * 3 * saved[0].pow(2) * saved[1], (dy[0] * saved[0].pow(3)).sum(0)};
  }
};

TEST(GlobalLeaves, pass_through_functions_of_users) {
  expect_same("function", {{4, 5}, {5}}, [](const Tensors& x) {
    const at::Tensor y = Cubed::apply(x[0] * 1.5, x[1]);
    const auto first = torch::autograd::grad({(y * x[0]).sum()}, {x[0], x[1]}, {}, true, true);
    const auto second = torch::autograd::grad({first[0].square().sum()}, {x[0], x[1]});
    return Tensors{y, first[0], first[1], second[0], second[1]};
  });
  expect_same("of what was written through a view", {{4, 5}, {5}}, [](const Tensors& x) {
    const at::Tensor y = at::zeros_like(x[0]);
    y.slice(0, 1, 3).copy_(x[0].slice(0, 1, 3));
    EXPECT_TRUE(y.requires_grad());
    Cubed::apply(y, x[1]).sum().backward();
    const at::Tensor first = x[0].grad().clone();
    const at::Tensor z = x[0] * 2;
    z.transpose(0, 1).mul_(x[0].t());
    z.backward(at::ones({4, 5}, at::kDouble));
    x[0].detach().mul_(0.5);
    return Tensors{first, x[0].grad(), x[1].grad(), x[0] * 2};
  });
  expect_same("that saved what was written through a view", {{4, 5}, {5}}, [](const Tensors& x) {
    const at::Tensor y = x[0] * 1.5, z = Cubed::apply(y, x[1]);
    {
      const at::NoGradGuard no_gradient;
      y.transpose(0, 1).add_(1);
    }
    EXPECT_THROW(z.sum().backward(), std::exception);
    return Tensors{z};
  });
}

/// Doubles in place.
struct DoubledInPlace : torch::autograd::Function<DoubledInPlace> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, at::Tensor x) {
    ctx->mark_dirty({x});
    return x.mul_(2);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*, torch::autograd::tensor_list dy) {
    return {dy[0] * 2};
  }
};

TEST(GlobalLeaves, lead_to_by_all_views_of_what_one_wrote) {
  expect_same("as a root", {{4, 5}, {5}}, [](const Tensors& x) {
    const at::Tensor y = x[0] * 2, a = y.transpose(0, 1), b = y.unsqueeze(0), c = b.transpose(1, 2);
    a.mul_(x[1].unsqueeze(1));
    Tensors made = torch::autograd::grad({b}, {x[0], x[1]}, {at::arange(20, at::kDouble).view({1, 4, 5})}, true);
    c.mul_(3);
    const auto of_y = torch::autograd::grad({y.sum()}, {x[0], x[1]}, {}, true);
    const auto of_a = torch::autograd::grad({a}, {x[0]}, {at::arange(20, at::kDouble).view({5, 4})}, true);
    made.insert(made.end(), {of_y[0], of_y[1], of_a[0], a, b, c, y});
    return made;
  });
  expect_same("in a function of the user", {{4, 5}, {5}}, [](const Tensors& x) {
    const at::Tensor y = at::zeros_like(x[0]), a = y.transpose(0, 1), b = y.unsqueeze(0), none = y.detach();
    a.add_(x[0].t());
    none.mul_(2);  // a change of values that gradients do not see
    y.mul_(x[1]);
    EXPECT_TRUE(a.requires_grad() && !none.requires_grad());
    Cubed::apply(a.t(), x[1]).sum().backward();
    return Tensors{x[0].grad(), x[1].grad(), y, none};
  });
  expect_same("written by a function of the user", {{4, 5}}, [](const Tensors& x) {
    at::Tensor y = x[0] * 3, made = DoubledInPlace::apply(y);
    (made * y).sum().backward();
    return Tensors{x[0].grad(), y};
  });
}

TEST(GlobalLeaves, leave_no_memory_behind) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    std::weak_ptr<GlobalGrid> home;
    std::weak_ptr<GlobalViews> views;
    {
      const Grid grid(world, {{"a", world.size()}});
      const at::Tensor x = global_leaf(at::ones({4, 6}, at::kDouble), Layout(grid.shape(), {4, 6}), grid);
      const at::Tensor y = x * 2, view = y.t(), part = view.unsqueeze(0), detached = part.detach();
      view.mul_(3);
      part.sum().backward();
      home = piece_of(x).home;
      views = piece_of(part).views;
      EXPECT_FALSE(views.expired());
    }
    EXPECT_TRUE(home.expired() && views.expired());
  });
}

TEST(GlobalLeaves, are_detached_replaced_and_switched) {
  expect_same("detach", {{4, 5}, {5}}, [](const Tensors& x) {
    const at::Tensor y = x[0] * x[1], d = y.detach();
    EXPECT_FALSE(d.requires_grad());
    (y * d).sum().backward();
    at::Tensor e = x[0] * 2;
    e.detach_();
    EXPECT_FALSE(e.requires_grad());
    EXPECT_FALSE((e * 2).requires_grad());
    return Tensors{x[0].grad(), x[1].grad(), d, e};
  });
  expect_same("data", {{4, 5}}, [](const Tensors& x) {
    x[0].data().mul_(2);
    at::Tensor leaf = x[0];
    (leaf * leaf).sum().backward();
    const at::Tensor gradient = leaf.grad().clone();
    leaf.set_data((leaf.detach() + 1).clone());
    EXPECT_TRUE(leaf.is_leaf() && leaf.requires_grad());
    return Tensors{gradient, leaf * 3};
  });
  expect_same("no_grad", {{4, 5}, {5}}, [](const Tensors& x) {
    {
      const at::NoGradGuard no_gradient;
      at::Tensor leaf = x[0];
      leaf.add_(x[1], -0.5);
      EXPECT_FALSE((leaf * 2).requires_grad());
    }
    (x[0] * x[1]).sum().backward();
    return Tensors{x[0], x[0].grad(), x[1].grad()};
  });
  expect_same("requires_grad", {{4, 5}, {5}}, [](const Tensors& x) {
    at::Tensor frozen = x[1];
    frozen.set_requires_grad(false);
    (x[0] * frozen).sum().backward();
    const at::Tensor first = x[0].grad().clone();
    EXPECT_FALSE(frozen.grad().defined());
    frozen.set_requires_grad(true);
    (x[0] * frozen).sum().backward();
    return Tensors{first, x[0].grad(), frozen.grad()};
  });
  expect_same("clip", {{4, 5}, {5}}, [](const Tensors& x) {
    (x[0] * x[1]).exp().sum().backward();
    const double norm = torch::nn::utils::clip_grad_norm_(Tensors{x[0], x[1]}, 0.5);
    return Tensors{x[0].grad(), x[1].grad(), number(norm)};
  });
}

TEST(GlobalLeaves, answer_with_numbers_that_all_workers_get) {
  expect_same("numbers", {{4, 5}, {4, 5}}, [](const Tensors& x) {
    Tensors answers;
    at::Tensor other = x[0].detach().clone();
    answers.push_back(number(at::equal(x[0], other)));
    answers.push_back(number(at::allclose(x[0], other)));
    answers.push_back(number(at::equal(x[0], x[1])));
    return answers;
  });
  expect_same("one element", {{4, 5}}, [](const Tensors& x) {
    const at::Tensor mask = at::arange(20).view({4, 5}) == 19;
    const at::Tensor other = x[0] + mask.to(at::kDouble);
    return Tensors{number(at::equal(x[0], other)), number(at::allclose(x[0], other)),
                   number(x[0].detach().sum().item<double>()), number((x[0] > 100).any().item<bool>()),
                   number((x[0].detach().max() > -100).item<bool>())};
  });
}

TEST(GlobalLeaves, meet_plain_tensors) {
  const at::Tensor plain = at::arange(5, at::kDouble) * 0.3;
  expect_same("constant", {{4, 5}}, [&](const Tensors& x) {
    (plain * x[0].tanh() + plain).square().sum().backward();
    return Tensors{x[0].grad()};
  });
  expect_same("plain with a gradient", {{4, 5}}, [&](const Tensors& x) {
    const at::Tensor leaf = plain.clone().requires_grad_();
    const at::Tensor zero_dim = number(0.7).requires_grad_();
    ((x[0] * leaf + leaf) * zero_dim).tanh().sum().backward();
    EXPECT_FALSE(is_global(leaf.grad()));
    return Tensors{x[0].grad(), leaf.grad(), zero_dim.grad()};
  });
  expect_same("written", {{4, 5}}, [&](const Tensors& x) {
    at::Tensor sum = plain.clone();
    sum.add_(x[0].sum(0));
    sum.mul_(2);
    EXPECT_FALSE(is_global(sum));
    sum.sin().sum().backward();
    return Tensors{sum, x[0].grad()};
  });
  expect_same("0 dims and no elements", {{4, 5}, {}, {0, 5}}, [](const Tensors& x) {
    const at::Tensor y = at::cat({x[0] * x[1], x[2].sin()}, 0), z = (x[2] * x[1]).sum() + x[1];
    (y.sum() * z).backward();
    return Tensors{y, z, x[2].reshape({-1}), x[0].grad(), x[1].grad(), x[2].grad()};
  });
  expect_same("numbers of other types", {{4, 6}}, [](const Tensors& x) {
    const at::Tensor ids = (x[0] * 3).to(at::kLong), mask = x[0] > 0;
    return Tensors{ids.sum(),
                   mask.to(at::kLong).sum(0),
                   ids.remainder(3).amax(1),
                   mask.logical_not().any(1),
                   mask.select(0, 2),
                   ids.select(1, 3) * 2,
                   x[0].sum(0).to(at::kLong),
                   at::div(x[0].sum(1), 0.25, "floor"),
                   x[0].detach().sum(std::nullopt, false, at::kLong),
                   at::bitwise_and(ids, 3)};
  });
}

TEST(GlobalLeaves, find_a_plain_tensor_that_differs_between_workers_in_checked_mode) {
  for (const bool differs : {false, true}) {
    const auto add = [&](const Communicator& world) {
      const Grid grid(world, {{"a", 2}});  // rank 2 is outside
      const at::Tensor piece = grid.has_me() ? at::ones({2, 3}) : at::empty({0});
      const at::Tensor x = global({piece, Layout(grid.shape(), {2, 3}), grid}).requires_grad_();
      (x + at::full({3}, differs || world.rank() == 2 ? world.rank() : 0)).sum().backward();
    };
    if (!differs) {
      launch_threads(3, add, {.checked = true});
      continue;
    }
    EXPECT_THAT(failure_of<InvalidArgument>(3, add, {.checked = true}),
                ::testing::ContainsRegex(
                    "aten::add of a global tensor and a plain one, 'other': expected the same arguments on "
                    "all ranks of the group, got from rank 0 on Long \\[3\\] of hash [0-9a-f]{16}; from "
                    "rank 1 on Long \\[3\\] of hash [0-9a-f]{16}$"));
  }
}

TEST(GlobalLeaves, refuse_what_would_be_wrong) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    using ::testing::HasSubstr;
    const Grid grid(world, {{"a", world.size()}}), other(world, {{"b", world.size()}});
    const at::Tensor plain = at::arange(12, at::kDouble).view({4, 3});
    const Layout cut(grid.shape(), {4, 3}, {{Split::balanced(4, world.size(), 0), {"a"}}});
    const at::Tensor x = global_leaf(plain, cut, grid), y = global_leaf(plain, Layout(other.shape(), {4, 3}), other);
    const auto expect = [](const auto& function, const char* text) {
      EXPECT_THAT(thrown_by<std::exception>(function), HasSubstr(text));
    };
    const at::Tensor z = x * 1;
    expect([&] { x.data_ptr(); }, "this is a piece of a global tensor");
    expect([&] { (void)x.data_ptr<double>(); }, "this is a piece of a global tensor");
    expect([&] { (void)x.accessor<double, 2>(); }, "this is a piece of a global tensor");
    expect([&] { (void)x.storage(); }, "storage");
    expect([&] { std::ostringstream() << x; }, "this is a piece of a global tensor");
    expect([&] { at::Tensor(x).add_(1); }, "aten::add_: expected no leaf");
    expect([&] { x.slice(0, 0, 2).add_(1); }, "aten::add_: expected no leaf");
    const at::Tensor doubled = x * 2, view = doubled.t();
    (void)DoubledInPlace::apply(doubled);
    expect([&] { (void)(view + 1); }, "expected memory that operations of LibTorch alone wrote");
    expect([&] { (void)(x + y); }, "aten::add: expected global tensors on one grid");
    expect([&] { (void)local_of(plain); }, "local_of: expected a global tensor");
    expect([&] { (void)at::rand_like(z); }, "aten::rand_like: expected a step");
    at::Tensor dropped = z.detach().clone();
    expect([&] { at::dropout_(dropped, 0.5, true); }, "aten::bernoulli_: expected a step");
    expect([&] { (void)at::rrelu(z, 0.1, 0.3, true); }, "aten::rrelu_with_noise");
    expect([&] { (void)at::Tensor(z).unsqueeze_(0); }, "cannot be resized");
    expect([&] { (void)at::scaled_dot_product_attention(z, z, z, {}, 0.5); }, "expected a step by which to draw");
  });
}

}  // namespace
}  // namespace adjoin
