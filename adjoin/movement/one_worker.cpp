#include "adjoin/movement/one_worker.hpp"

#include "adjoin/base/error.hpp"
#include "adjoin/movement/exchange.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/partition/move_plan.hpp"

namespace adjoin {
namespace {

std::function<at::Tensor(const at::Tensor&)> exchange(const Layout& from, const Layout& to, const Communicator& group) {
  return [=](const at::Tensor& t) {
    return Exchange(plan_move(from, to, group.rank()), to.shape_on(group.rank()), group)(t);
  };
}

/// The layouts of the whole tensor on the root, and of its blocks on all ranks.
std::pair<Layout, Layout> layouts_of(const std::vector<int64_t>& shape, const Communicator& group, const Split& split,
                                     int root) {
  require(root >= 0 && root < group.size(), [&] {
    return "gather, scatter: expected a root from 0 to " + std::to_string(group.size() - 1) + ", got " +
           std::to_string(root);
  });
  require(split.is_exact(), [&] {
    return "gather, scatter: expected a split that gives each index to one rank, got " + split.to_string();
  });
  return {Layout(GridShape({{"group", 1}}, {root}), shape),
          Layout(GridShape({{"group", group.size()}}), shape, {{split, {"group"}}})};
}

}  // namespace

at::Tensor gather(const at::Tensor& x, const Communicator& group, const Split& split, int root) {
  if (x.is_complex()) return on_reals(x, [&](const at::Tensor& t) { return gather(t, group, split, root); });
  std::vector<int64_t> shape = x.sizes().vec();
  require(split.dim() < x.dim(), [&] {
    return "gather: expected a split of one of the tensor's " + std::to_string(x.dim()) + " dims, got one of dim " +
           std::to_string(split.dim());
  });
  shape[static_cast<size_t>(split.dim())] = split.size();
  const auto [whole, blocks] = layouts_of(shape, group, split, root);
  check_piece("gather", x, blocks, group.rank());
  return apply({.forward = exchange(blocks, whole, group),
                .adjoint = exchange(whole, blocks, group),
                .kinds = MovedKinds{.name = "gather", .group = group}},
               x, group);
}

at::Tensor scatter(const at::Tensor& x, const std::vector<int64_t>& shape, const Communicator& group,
                   const Split& split, int root) {
  if (x.is_complex())
    return on_reals(x, [&](const at::Tensor& t) { return scatter(t, with_pairs(shape), group, split, root); });
  const auto [whole, blocks] = layouts_of(shape, group, split, root);
  check_piece("scatter", x, whole, group.rank());
  return apply({.forward = exchange(whole, blocks, group),
                .adjoint = exchange(blocks, whole, group),
                .kinds = MovedKinds{.name = "scatter", .group = group}},
               x, group);
}

}  // namespace adjoin
