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

/// The whole on the root, and its blocks on all.
std::pair<Layout, Layout> layouts_of(const std::vector<int64_t>& shape, const Communicator& group, const Split& split,
                                     int root) {
  require(root >= 0 && root < group.size(), [&] {
    return "gather, scatter: expected a root among " + std::to_string(group.size()) + " ranks, got " +
           std::to_string(root);
  });
  return {Layout(GridShape({{"group", 1}}, {root}), shape),
          Layout(GridShape({{"group", group.size()}}), shape, {{split, {"group"}}})};
}

void check_shape(const char* operation, const at::Tensor& x, const Layout& layout, int rank) {
  const std::vector<int64_t> expected = layout.shape_on(rank);
  const bool is_inside = layout.grid().cell_of(rank).has_value();
  require(is_inside ? x.sizes() == at::IntArrayRef(expected) : x.numel() == 0, [&] {
    return std::string(operation) + ": rank " + std::to_string(rank) + ": expected a tensor of shape " +
           shape_text(expected) + ", got " + shape_text(x.sizes().vec());
  });
}

}  // namespace

at::Tensor gather(const at::Tensor& x, const Communicator& group, const Split& split, int root) {
  std::vector<int64_t> shape = x.sizes().vec();
  require(split.dim() < x.dim(), [&] { return "gather: the split is of dim " + std::to_string(split.dim()); });
  shape[static_cast<size_t>(split.dim())] = split.size();
  const auto [whole, blocks] = layouts_of(shape, group, split, root);
  check_shape("gather", x, blocks, group.rank());
  return apply({.forward = exchange(blocks, whole, group), .adjoint = exchange(whole, blocks, group)}, x, group);
}

at::Tensor scatter(const at::Tensor& x, const std::vector<int64_t>& shape, const Communicator& group,
                   const Split& split, int root) {
  const auto [whole, blocks] = layouts_of(shape, group, split, root);
  check_shape("scatter", x, whole, group.rank());
  return apply({.forward = exchange(whole, blocks, group), .adjoint = exchange(blocks, whole, group)}, x, group);
}

}  // namespace adjoin
