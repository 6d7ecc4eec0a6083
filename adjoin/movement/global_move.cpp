#include "adjoin/movement/global_move.hpp"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "adjoin/movement/linear_map.hpp"
#include "adjoin/partition/move_plan.hpp"

namespace adjoin {

double largest_piece(const Layout& layout, size_t first_dim) {
  double most = 1;
  for (size_t dim = first_dim; dim < layout.cuts().size(); ++dim)
    most *= static_cast<double>(std::ranges::max(layout.cuts()[dim].split.sizes()));
  return most;
}

/// Where only the kind changes: one of the workers along some axes counts, those at coordinate 0.
struct GlobalMove::OneCounts {
  OneCounts(const Layout& from, const Layout& to, const std::vector<std::string>& axes, const Grid& grid)
      : kinds{.name = "move", .layouts = std::pair(from, to), .group = grid.world()} {
    counts = std::ranges::all_of(axes, [&](const std::string& axis) { return grid.coordinate(axis) == 0; });
  }
  at::Tensor kept(const at::Tensor& x) const { return counts ? x : at::zeros_like(x); }

  MovedKinds kinds;
  bool counts = true;
};

namespace {

/// The axes whose kind is `kind` in one layout only, in the first of the two.
std::vector<std::string> axes_of(Kind kind, const Layout& a, const Layout& b) {
  std::vector<std::string> axes = a.axes(kind);
  std::erase_if(axes, [&](const std::string& axis) { return b.kind(axis) == kind; });
  return axes;
}

Layout replicated_along(Layout layout, const std::vector<std::string>& axes) {
  for (const std::string& axis : axes) layout = layout.with_kind(axis, Kind::replicated);
  return layout;
}

/// The elements that a worker gets and did not have, the most of all workers.
double received(const Layout& from, const Layout& to) {
  double most = 0;
  for (int cell = 0; cell < to.grid().cells(); ++cell) {
    const std::vector<int> had = from.parts_of(cell), gets = to.parts_of(cell);
    double all = 1, kept = 1;
    for (size_t dim = 0; dim < had.size(); ++dim) {
      const Split &a = from.cuts()[dim].split, &b = to.cuts()[dim].split;
      int64_t common = 0;
      for (const Overlap& overlap : overlaps(a, had[dim], b))
        if (overlap.to == gets[dim]) common += overlap.range.size();
      all *= static_cast<double>(b.size(gets[dim]));
      kept *= static_cast<double>(common);
    }
    most = std::max(most, all - kept);
  }
  return most;
}

/// The elements that a worker sends in one direction.
double sent(const Layout& from, const Layout& to) {
  const MoveKind kind = kind_of_move(from, to);
  double workers = 1;
  for (const std::string& axis : kind.axes) workers *= from.grid().axis_size(axis);
  const double others = (workers - 1) / workers;
  switch (kind.way) {
    case MoveKind::Way::local:
      return 0;
    case MoveKind::Way::all_reduce:
      return 2 * others * largest_piece(to);
    case MoveKind::Way::all_gather:
      return others * largest_piece(to);
    case MoveKind::Way::reduce_scatter:
      return others * largest_piece(from);
    case MoveKind::Way::exchange:
      if (!from.axes(Kind::partial).empty()) return std::max(largest_piece(from), largest_piece(to));
      return std::max(received(from, to), received(to, from));  // of a halo, the adjoint sends what was received
  }
  return 0;
}

}  // namespace

GlobalMove::GlobalMove(const Layout& from, const Layout& to, const Grid& grid) {
  const std::vector<std::string> copied = axes_of(Kind::copied, from, to), partial = axes_of(Kind::partial, to, from);
  const Layout first = replicated_along(from, copied), last = replicated_along(to, partial);
  if (!copied.empty() && grid.has_me()) before_ = std::make_shared<OneCounts>(from, first, copied, grid);
  if (first != last) {
    move_.emplace(first, last, grid);
    const MoveKind kind = kind_of_move(first, last);
    keeps_memory_ = kind.way == MoveKind::Way::local && kind.taken.empty();
  }
  for (const std::string& axis : partial) keeps_memory_ = keeps_memory_ && from.grid().axis_size(axis) == 1;
  if (!partial.empty() && grid.has_me()) after_ = std::make_shared<OneCounts>(last, to, partial, grid);
}

at::Tensor GlobalMove::operator()(const at::Tensor& x) const {
  at::Tensor y = x;
  if (before_)
    y = apply({.forward = [](const at::Tensor& t) { return t; },
               .adjoint = [one = before_](const at::Tensor& t) { return one->kept(t); },
               .kinds = before_->kinds},
              y);
  if (move_) y = (*move_)(y);
  if (after_)
    y = apply({.forward = [one = after_](const at::Tensor& t) { return one->kept(t); },
               .adjoint = [](const at::Tensor& t) { return t; },
               .kinds = after_->kinds},
              y);
  return y;
}

double GlobalMove::cost(const Layout& from, const Layout& to) {
  const Layout first = replicated_along(from, axes_of(Kind::copied, from, to));
  const Layout last = replicated_along(to, axes_of(Kind::partial, to, from));
  return first == last ? 0 : sent(first, last) + sent(last.dual(), first.dual());
}

}  // namespace adjoin
