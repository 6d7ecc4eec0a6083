#include "adjoin/movement/check_gradients.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/distributed_tensor.hpp"
#include "adjoin/movement/forward_record.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/move.hpp"
#include "adjoin/movement/one_worker.hpp"
#include "adjoin/movement/point_to_point.hpp"
#include "adjoin/movement/recompute.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/line.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
TEST(CheckGradients, names_a_replicated_parameter_that_is_used_with_what_differs) {
  for_each_line([](const Line& line) {
    const at::Tensor own = reduce_scatter(line.part, line.world, line.split);
    EXPECT_THAT(
        line.error((own * line.whole.narrow(0, 0, own.size(0))).sum()),
        AllOf(
            HasSubstr("gradients along tp: 'whole' is replicated, but MulBackward0 uses it with a tensor that differs "
                      "between ranks (from reduce_scatter at "),
            HasSubstr("check_gradients_test.cpp:"),
            HasSubstr("Declare it copied or call copy_to on it, or gather or sum the other")));
    EXPECT_EQ(line.error((own * line.copy.narrow(0, 0, own.size(0))).sum()), kNothing);
  });
}

TEST(CheckGradients, names_a_movement_that_is_missing_or_stands_twice) {
  for_each_line([](const Line& line) {
    const auto layer = [&](const at::Tensor& x) { return x.mm(line.part).relu().mm(line.part); };
    const auto& w = line.world;
    const at::Tensor &x = line.whole, copied = copy_to(x, w);
    EXPECT_EQ(line.error(reduce_from(layer(copied), w).sum()), kNothing);
    EXPECT_THAT(line.error(reduce_from(layer(x), w).sum()), HasSubstr("'whole' is replicated, but MmBackward0"));
    EXPECT_THAT(line.error(reduce_from(layer(copy_to(copied, w)), w).sum()), HasSubstr("copy_to at"));
    EXPECT_THAT(line.error(all_sum_reduce(layer(copied), w).sum()), HasSubstr("the loss is the same on all ranks"));
    EXPECT_THAT(
        line.error(reduce_from(reduce_from(layer(copied), w), w).sum()),
        AllOf(HasSubstr("reduce_from at"), HasSubstr("expects a tensor that differs"), HasSubstr("is replicated")));
    EXPECT_THAT(line.error((reduce_from(layer(copied), w) + layer(copied)).sum()), HasSubstr("AddBackward0"));
  });
}

TEST(CheckGradients, knows_what_each_movement_takes_and_gives) {
  struct Case {
    const char* name;
    std::function<at::Tensor(const Line&, const at::Tensor&)> movement;
    Kind from, to;
  };
  const std::vector<Case> cases = {
      {"copy_to", [](const Line& l, const at::Tensor& x) { return copy_to(x, l.world); }, Kind::replicated,
       Kind::copied},
      {"reduce_from", [](const Line& l, const at::Tensor& x) { return reduce_from(x, l.world); }, Kind::partial,
       Kind::replicated},
      {"all_sum_reduce", [](const Line& l, const at::Tensor& x) { return all_sum_reduce(x, l.world); }, Kind::partial,
       Kind::copied},
      {"gather_from",
       [](const Line& l, const at::Tensor& x) {
         return gather_from(x.narrow(0, 0, l.split.size(l.world.rank())), l.world, l.split);
       },
       Kind::split, Kind::replicated},
      {"all_gather",
       [](const Line& l, const at::Tensor& x) {
         return all_gather(x.narrow(0, 0, l.split.size(l.world.rank())), l.world, l.split);
       },
       Kind::split, Kind::copied},
      {"scatter_to", [](const Line& l, const at::Tensor& x) { return scatter_to(x, l.world, l.split); },
       Kind::replicated, Kind::split},
      {"reduce_scatter", [](const Line& l, const at::Tensor& x) { return reduce_scatter(x, l.world, l.split); },
       Kind::partial, Kind::split},
      {"move",
       [](const Line& l, const at::Tensor& x) {
         const Layout whole(l.grid.shape(), {12, 12});
         return move(x, whole.with_kind("tp", Kind::partial), whole.with_kind("tp", Kind::copied), l.grid);
       },
       Kind::partial, Kind::copied},
      {"move",
       [](const Line& l, const at::Tensor& x) {
         const Layout whole(l.grid.shape(), {12, 12});
         return move(x, whole, whole.with_cut({l.split, {"tp"}}), l.grid);
       },
       Kind::replicated, Kind::split},
      {"all_to_all",
       [](const Line& l, const at::Tensor& x) {
         std::vector<int64_t> rows(static_cast<size_t>(l.world.size()), 12 / l.world.size());
         return all_to_all(x, rows, rows, l.world);
       },
       Kind::split, Kind::split}};
  const auto reads_as = [](Kind kind) { return kind == Kind::partial ? Kind::split : kind; };
  for_each_line([&](const Line& line) {
    for (const Case& c : cases) {
      for (const Kind given : {Kind::replicated, Kind::copied, Kind::split}) {
        const at::Tensor& x = given == Kind::replicated ? line.whole : given == Kind::copied ? line.copy : line.part;
        const std::string error = line.error(reduce_from(c.movement(line, x).sum() * line.part.sum(), line.world));
        if (given != reads_as(c.from))
          EXPECT_THAT(error, HasSubstr(std::string(c.name) + " at ")) << name(given);
        else if (c.to == Kind::replicated)
          EXPECT_THAT(error, HasSubstr("MulBackward0")) << c.name;  // what it gives met one that differs
        else
          EXPECT_EQ(error, kNothing) << c.name;
      }
      const at::Tensor& x = reads_as(c.from) == Kind::replicated ? line.whole : line.part;
      const std::string with_copied = line.error((c.movement(line, x).sum() * line.copy.sum()).sum());
      if (c.to == Kind::copied)
        EXPECT_THAT(with_copied, HasSubstr("the loss is the same")) << c.name;
      else if (c.to == Kind::split)
        EXPECT_EQ(with_copied, kNothing) << c.name;
      else
        EXPECT_THAT(with_copied, HasSubstr("uses it with a tensor that is copied")) << c.name;
    }
  });
}

TEST(CheckGradients, reads_inputs_by_their_memory) {
  for_each_line([](const Line& line) {
    const at::Tensor x = at::ones({4, 12}, at::kDouble), ids = at::zeros({4}, at::kLong);
    const auto error_as = [&](Kind kind, const at::Tensor& loss) {
      return line.error(loss, {line.known("x", x, kind), line.known("ids", ids, kind)});
    };
    const at::Tensor by_product = x.view({4, 12}).mm(line.whole).sum(),
                     by_lookup = at::embedding(line.whole, ids).sum();
    for (const at::Tensor& loss : {by_product, by_lookup}) {
      EXPECT_EQ(error_as(Kind::replicated, loss), kNothing);
      EXPECT_THAT(error_as(Kind::split, loss), HasSubstr("'whole' is replicated, but"));
      EXPECT_EQ(line.error(loss), kNothing) << "who is not told of an input accuses nobody";
    }
    const at::Tensor of_copies = x.mm(line.copy).sum();
    EXPECT_EQ(error_as(Kind::split, of_copies), kNothing);
    EXPECT_THAT(error_as(Kind::replicated, of_copies), HasSubstr("the loss is the same on all ranks"));
    EXPECT_EQ(line.error(of_copies), kNothing);
    EXPECT_THAT(line.error((line.copy * 2).sum()), HasSubstr("'copy'")) << "a number is the same on all ranks";
    const at::Tensor asked = weight({4, 12});
    EXPECT_THAT(line.error(asked.mm(line.whole).sum(), {line.known("asked", asked, Kind::split)}),
                HasSubstr("'asked'"));
  });
}

TEST(CheckGradients, is_told_what_the_loss_is_to_be) {
  for_each_line([](const Line& line) {
    const auto error_as = [&](Kind kind, const at::Tensor& loss) {
      return thrown_by<InvalidArgument>([&] {
        check_gradients(loss, line.parameters(), {}, line.grid, {{"tp", kind}});
      });
    };
    const at::Tensor own = (copy_to(line.whole, line.world) * line.part).sum();
    EXPECT_EQ(error_as(Kind::split, own), kNothing);
    EXPECT_THAT(error_as(Kind::replicated, own), HasSubstr("the loss differs between ranks"));
    EXPECT_EQ(error_as(Kind::replicated, reduce_from(own, line.world)), kNothing);
    EXPECT_THAT(error_as(Kind::split, reduce_from(own, line.world)),
                HasSubstr("the loss is replicated (from reduce_from"));
    EXPECT_THAT(error_as(Kind::replicated, all_sum_reduce(own, line.world)), HasSubstr("the loss is the same on all"));
  });
}

struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& a, const at::Tensor& b) {
    return a + 2 * b;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*, torch::autograd::tensor_list of) {
    return {of[0], 2 * of[0]};
  }
};

TEST(CheckGradients, knows_views_operations_in_place_functions_of_others_and_what_has_no_gradient) {
  for_each_line([](const Line& line) {
    const auto& w = line.world;
    at::Tensor own = copy_to(line.whole, w) * line.part;
    own.narrow(0, 0, 2).mul_(3).t().add_(1);
    EXPECT_EQ(line.error(reduce_from(own, w).sum()), kNothing);
    at::Tensor mixed = line.whole * 2;
    mixed.narrow(0, 0, 2).mul_(line.part.narrow(0, 0, 2));
    EXPECT_THAT(line.error(mixed.sum()), HasSubstr("'whole' is replicated"));
    EXPECT_EQ(line.error(Doubled::apply(line.copy, line.part).sum()), kNothing);
    EXPECT_THAT(line.error(Doubled::apply(line.whole, line.part).sum()), HasSubstr("Doubled"));
    EXPECT_EQ(line.error((line.whole * line.part.detach()).sum()), kNothing)
        << "its part without gradient is not known";
    EXPECT_EQ(line.error(at::ones({}, at::kDouble)), kNothing);
    EXPECT_EQ(line.error(line.whole.sum() + at::stack({line.whole, line.whole.detach()}).sum()), kNothing);
    const auto halves = (line.copy * line.part).chunk(2);
    EXPECT_EQ(line.error((halves[0] * halves[1]).sum()), kNothing);
  });
}

TEST(CheckGradients, knows_second_derivatives) {
  for_each_line([](const Line& line) {
    const auto& w = line.world;
    const auto penalty = [&](const at::Tensor& x) {
      const at::Tensor y = reduce_from((x.mm(line.part)).tanh().mm(line.part), w).pow(2).sum();
      const at::Tensor of_x = torch::autograd::grad({y}, {line.whole}, {}, true, true)[0];
      return y + of_x.pow(2).sum();
    };
    EXPECT_EQ(line.error(penalty(copy_to(line.whole, w))), kNothing);
    EXPECT_THAT(line.error(penalty(line.whole)), HasSubstr("'whole' is replicated, but MmBackward0"));
    // The first derivatives are right, and each rank adds the square of its own share of them.
    const at::Tensor y = reduce_from(copy_to(line.whole, w).mm(line.part).tanh(), w).pow(2).sum();
    const at::Tensor of_part = torch::autograd::grad({y}, {line.part}, {}, true, true)[0];
    EXPECT_THAT(line.error(y + of_part.pow(2).sum()), HasSubstr("AddBackward0"));
    EXPECT_EQ(line.error(y + reduce_from(of_part.pow(2).sum(), w)), kNothing);
  });
}

TEST(CheckGradients, looks_into_what_is_computed_again_where_it_was_noted) {
  for_each_line([](const Line& line) {
    const auto& w = line.world;
    const auto run = [&](bool is_right) {
      return recomputed(
                 [&, is_right](const std::vector<at::Tensor>& x) {
                   return reduce_from((is_right ? copy_to(x[0], w) : x[0]).mm(line.part).relu(), w);
                 },
                 {line.whole * 1})
          .sum();
    };
    EXPECT_EQ(line.error(run(true)), kNothing);
    EXPECT_EQ(line.error(run(false)), kNothing) << "not known";
    const ForwardRecord notes;
    const at::Tensor right = run(true);
    EXPECT_EQ(line.error(right), kNothing);
    EXPECT_THAT(line.error(run(false)), HasSubstr("'whole' is replicated, but MmBackward0"));
    right.backward();
    EXPECT_TRUE(line.part.grad().defined());
  });
}

TEST(CheckGradients, knows_movements_to_one_worker_and_between_two) {
  for_each_line([](const Line& line) {
    const auto& w = line.world;
    const Split rows = Split::balanced(12 * w.size(), w.size(), 0);
    const at::Tensor whole = gather(line.part, w, rows, 0);
    EXPECT_EQ(line.error((whole * whole).sum()), kNothing);
    EXPECT_THAT(line.error(gather(line.whole, w, rows, 0).sum()), HasSubstr("gather expects"));
    EXPECT_EQ(line.error(rotate(line.whole, w, 1).sum()), kNothing);
    EXPECT_EQ(line.error((rotate(line.part, w, 1) * line.part).sum()), kNothing);
    EXPECT_THAT(line.error((rotate(line.part, w, 1) * line.whole).sum()), HasSubstr("(from rotate at"));
  });
}

/// On a grid of two axes, and of three where the movement goes along two of them.
TEST(CheckGradients, judges_each_axis_by_itself) {
  for_each_world({4, 6}, [](const Communicator& world) {
    if (world.size() < 4 || world.size() % 2 != 0) return;  // under mpirun
    const Grid grid(world, {{"dp", world.size() / 2}, {"tp", 2}});
    const at::Tensor a = weight({6, 6}), b = weight({6, 6});
    const auto error = [&](const at::Tensor& loss, Kind dp, Kind tp) {
      return thrown_by<InvalidArgument>([&] {
        check_gradients(
            loss,
            {{"a", a, Layout(grid.shape(), {6, 6}, {}, {{"dp", Kind::copied}, {"tp", Kind::replicated}}), world},
             {"b", b, std::map<std::string, Kind>{{"dp", dp}, {"tp", tp}}}},
            {}, grid);
      });
    };
    const auto& tp = grid.axis("tp");
    const at::Tensor loss = reduce_from(copy_to(a, tp).mm(b), tp).sum();
    EXPECT_EQ(error(loss, Kind::split, Kind::split), kNothing);
    EXPECT_THAT(error(loss, Kind::replicated, Kind::split), HasSubstr("gradients along dp: 'b' is replicated"));
    EXPECT_THAT(error(loss, Kind::split, Kind::replicated), HasSubstr("gradients along tp: 'b' is replicated"));
    EXPECT_EQ(error(reduce_from(b, grid.group({"dp", "tp"})).sum(), Kind::split, Kind::split), kNothing);
    EXPECT_THAT(error(reduce_from(b, grid.group({"dp", "tp"})).sum(), Kind::split, Kind::replicated),
                HasSubstr("along tp"));
    EXPECT_EQ(error(reduce_from(b, world).sum(), Kind::split, Kind::split), kNothing);
    // A group that is no line of the grid: nothing is known of what it gives.
    const Communicator pair = world.subset(std::vector<int>{world.rank() / 2 * 2, world.rank() / 2 * 2 + 1});
    EXPECT_EQ(error(reduce_from(b, pair).sum(), Kind::split, Kind::split), kNothing);
    // Along the axes that its ranks do not span, a move leaves what it moves as it was.
    const Split split = Split::balanced(6 * tp.size(), tp.size(), 0), columns = Split::balanced(6, tp.size(), 1);
    EXPECT_EQ(error(reduce_from(all_to_all(b, tp, split, columns), tp).sum(), Kind::replicated, Kind::split), kNothing);
    EXPECT_THAT(error((all_to_all(b, tp, split, columns).sum() * a).sum(), Kind::copied, Kind::split),
                HasSubstr("along tp: 'a' is replicated"));
    // A layout says what lies along all its axes, also along those where nothing moves.
    const Layout summands(grid.shape(), {6, 6}, {}, {{"dp", Kind::copied}, {"tp", Kind::partial}});
    const at::Tensor summed = move(b, summands, summands.with_kind("tp", Kind::replicated), grid).sum();
    EXPECT_THAT(error(summed, Kind::copied, Kind::split), HasSubstr("along dp: the loss is the same on all ranks"));
    EXPECT_THAT(
        error(summed, Kind::split, Kind::split),
        AllOf(HasSubstr("along dp: move at "), HasSubstr("expects a tensor that is copied, but its input differs")));
    const int other = world.size() - 1 - world.rank();
    const Communicator across =
        world.subset(std::vector<int>{std::min(other, world.rank()), std::max(other, world.rank())});
    EXPECT_EQ(error((reduce_from(b, across) * a).sum(), Kind::split, Kind::split), kNothing);
  });
}

TEST(CheckGradients, knows_distributed_tensors_and_workers_that_hold_nothing) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"tp", world.size()}});
    const Layout rows(grid.shape(), {1, 4}, {{Split::balanced(1, world.size(), 0), {"tp"}}});
    const Layout on_first(GridShape({{"one", 1}}, {0}), {1, 4});
    const at::Tensor local = weight(rows.shape_on(world.rank()));
    const auto error = [&](const at::Tensor& loss, const DistributedTensor& x) {
      return thrown_by<InvalidArgument>([&] { check_gradients(loss, {}, {known_tensor("x", x)}, grid); });
    };
    const DistributedTensor x{local, rows, grid};
    const at::Tensor all = whole(x);
    EXPECT_EQ(error((all * all).sum(), x), kNothing);
    EXPECT_THAT(error((all * local.sum()).sum(), x), HasSubstr("(from move at"));
    const DistributedTensor doubled = map(x, [](const at::Tensor& t) { return t * 2; });
    const auto error_as = [&](const Layout& layout) {
      return thrown_by<InvalidArgument>([&] {
        check_gradients(whole(doubled).sum(), {}, {{"doubled", doubled.local, layout, world}}, grid);
      });
    };
    EXPECT_EQ(error_as(rows), kNothing);
    EXPECT_THAT(error_as(Layout(grid.shape(), {2, 4}, {}, {{"tp", Kind::partial}})),
                AllOf(HasSubstr("gradients: 'doubled' has shape ["), HasSubstr("A movement before it is missing")));
    const DistributedTensor first = move(x, on_first);
    EXPECT_EQ(error(whole(map(first, [](const at::Tensor& t) { return t.exp(); })).sum(), x), kNothing);
    const DistributedTensor copies = move(x, rows.on(grid.shape(), Kind::copied));
    EXPECT_EQ(error(whole(copies).sum(), x), kNothing);
  });
}

TEST(CheckGradients, sends_nothing_and_changes_no_gradient) {
  for_each_line([](const Line& line) {
    const at::Tensor loss = reduce_from(copy_to(line.whole, line.world).mm(line.part), line.world).sum();
    if (line.world.rank() == 0) {
      EXPECT_EQ(line.error(loss), kNothing);  // the others need not come
    }
    loss.backward();
    EXPECT_TRUE(line.whole.grad().defined());
  });
}

}  // namespace
}  // namespace adjoin
