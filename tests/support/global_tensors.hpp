#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "adjoin/movement/global_tensor.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::testing {

using Tensors = std::vector<at::Tensor>;
/// What code of users computes from tensors.
using Code = std::function<at::Tensor(const Tensors& inputs)>;

/// A leaf that is the global tensor of a plain one, which all workers have.
inline at::Tensor global_leaf(const at::Tensor& plain, const Layout& layout, const Grid& grid) {
  const DistributedTensor piece = place(plain.detach(), layout, grid);
  at::Tensor leaf = global({piece.local.clone(), layout, grid});
  if (plain.is_floating_point()) leaf.requires_grad_();
  return leaf;
}

inline double largest_error(const at::Tensor& found, const at::Tensor& expected) {
  if (!expected.defined()) return found.defined() ? found.abs().max().item<double>() : 0;
  EXPECT_TRUE(found.defined());
  EXPECT_EQ(found.sizes(), expected.sizes());
  if (!found.defined() || found.sizes() != expected.sizes() || expected.numel() == 0) return 0;
  const at::Tensor a = found.detach().to(at::kDouble), b = expected.detach().to(at::kDouble);
  return ((a - b).abs() / b.abs().clamp_min(1)).max().item<double>();
}

/// Whether code gives on global tensors of these layouts what it gives on plain ones: the result, its gradients and, unless `twice`
/// is false, the gradients of a penalty of these.
inline void expect_as_plain(const std::string& name, const Code& code, const std::vector<at::Tensor>& plain,
                            const std::vector<Layout>& layouts, const Grid& grid, bool twice = true) {
  std::string where = name + " on " + std::to_string(grid.world().size());
  for (const Layout& layout : layouts) where += "; " + layout.to_string();
  SCOPED_TRACE(where);
  std::vector<at::Tensor> leaves, globals, trained, trained_globals;
  for (size_t i = 0; i < plain.size(); ++i) {
    leaves.push_back(plain[i].detach().clone());
    globals.push_back(global_leaf(plain[i], layouts[i], grid));
    if (!plain[i].is_floating_point()) continue;
    leaves.back().requires_grad_();
    trained.push_back(leaves.back());
    trained_globals.push_back(globals.back());
  }
  const at::Tensor expected = code(leaves), found = code(globals);
  ASSERT_TRUE(is_global(found));
  EXPECT_LT(largest_error(whole(found), expected), 1e-12);
  if (!expected.requires_grad()) return;
  const at::Tensor weights =
      (at::arange(expected.numel(), expected.options().requires_grad(false)) * 0.7).cos().view(expected.sizes());
  const auto of_plain = torch::autograd::grad({(expected * weights).sum()}, trained, {}, true, twice, true);
  const auto of_global = torch::autograd::grad({(found * weights).sum()}, trained_globals, {}, true, twice, true);
  at::Tensor penalty, global_penalty;
  for (size_t i = 0; i < trained.size(); ++i) {
    EXPECT_LT(largest_error(of_global[i].defined() ? whole(of_global[i]) : at::Tensor(), of_plain[i]), 1e-12)
        << "gradient " << i;
    if (!of_plain[i].defined() || !of_plain[i].requires_grad()) continue;
    const at::Tensor one = (of_plain[i] * of_plain[i]).sum(), global_one = (of_global[i] * of_global[i]).sum();
    penalty = penalty.defined() ? penalty + one : one;
    global_penalty = global_penalty.defined() ? global_penalty + global_one : global_one;
  }
  if (!twice || !penalty.defined()) return;
  const auto twice_plain = torch::autograd::grad({penalty}, trained, {}, {}, false, true);
  const auto twice_global = torch::autograd::grad({global_penalty}, trained_globals, {}, {}, false, true);
  for (size_t i = 0; i < trained.size(); ++i)
    EXPECT_LT(largest_error(twice_global[i].defined() ? whole(twice_global[i]) : at::Tensor(), twice_plain[i]), 1e-11)
        << "second derivative " << i;
}

/// The same in several random layouts of each input, on all workers of the world.
inline void expect_as_plain_anywhere(const std::string& name, const Code& code,
                                     const std::vector<std::vector<int64_t>>& shapes, const Communicator& world,
                                     int draws = 6, bool twice = true) {
  for (int draw = 0; draw < draws; ++draw) {
    Numbers numbers(static_cast<uint64_t>(draw) * 1000 + name.size() * 17 + static_cast<uint64_t>(world.size()));
    std::vector<GridShape::Axis> axes{{"a", world.size()}};
    if (world.size() == 4 && numbers.one_in(2)) axes = {{"a", 2}, {"b", 2}};
    const Grid grid(world, axes);
    std::vector<at::Tensor> plain;
    std::vector<Layout> layouts;
    for (size_t i = 0; i < shapes.size(); ++i) {
      plain.push_back(random_tensor(shapes[i], Kind::replicated, world, draw * 10 + static_cast<int64_t>(i)));
      layouts.push_back(
          random_layout(numbers.seed(), grid.shape(), shapes[i], numbers.one_in(2) ? Kind::copied : Kind::replicated));
    }
    expect_as_plain(name, code, plain, layouts, grid, twice);
  }
}

/// Code, and the shapes of its inputs.
struct CodeTrial {
  const char* name;
  Code code;
  std::vector<std::vector<int64_t>> shapes;
  bool twice = true;
};
/// The same for several trials, on worlds of 1 to 4 ranks.
inline void expect_all_as_plain(const std::vector<CodeTrial>& trials) {
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for (const CodeTrial& trial : trials)
      expect_as_plain_anywhere(trial.name, trial.code, trial.shapes, world, 6, trial.twice);
  });
}

}  // namespace adjoin::testing
