#include "adjoin/movement/halo.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "adjoin/movement/forward_mode.hpp"

namespace adjoin {
namespace {

std::vector<int> parts_on(const Layout& layout, int rank) {
  const auto cell = layout.grid().cell_of(rank);
  return cell ? layout.parts_of(*cell) : std::vector<int>{};
}

/// How far a rank's piece of `fetched` goes beyond its piece of `own`; none where it does not contain it, or sums it.
std::vector<Pads> beyond(const Layout& own, const Layout& fetched, int rank) {
  const auto from = own.grid().cell_of(rank), to = fetched.grid().cell_of(rank);
  if (!from || !to || !own.is_exact() || !own.axes(Kind::partial).empty()) return {};
  const auto of_own = own.ranges_of(*from), of_fetched = fetched.ranges_of(*to);
  std::vector<Pads> pads;
  for (size_t dim = 0; dim < of_own.size(); ++dim) {
    if (of_own[dim].size() != 1 || of_fetched[dim].size() != 1) return {};
    const Range &inner = of_own[dim][0], &outer = of_fetched[dim][0];
    if (inner.begin < outer.begin || inner.end > outer.end) return {};
    pads.push_back({inner.begin - outer.begin, outer.end - inner.end});
  }
  return pads;
}

/// Whether x is all of `room` but these margins.
bool is_inside(const at::Tensor& x, const at::Tensor& room, const std::vector<Pads>& margins) {
  if (!room.defined() || margins.empty() || room.dim() != x.dim()) return false;
  for (size_t d = 0; d < margins.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (room.size(dim) != x.size(dim) + margins[d].left + margins[d].right) return false;
  }
  return within(room, margins).is_set_to(x);
}

at::Tensor indices_of(const std::vector<Places>& order) {
  std::vector<int64_t> indices;
  for (const Places& places : order)
    for (int64_t i = 0; i < places.count; ++i) indices.push_back(places.begin + i * places.step);
  return at::tensor(indices, at::kLong);
}

}  // namespace

HaloExchange::HaloExchange(const Layout& layout, const std::vector<Window>& windows, const Edges& edges,
                           const Grid& grid)
    : HaloExchange(layout, plan_halo(layout, windows, edges), grid) {}

HaloExchange::HaloExchange(const Layout& layout, HaloPlan plan, const Grid& grid, double fill)
    : plan_(std::move(plan)),
      fill_(fill),
      parts_(parts_on(plan_.fetched, grid.world().rank())),
      fetch_(layout, plan_.fetched, grid) {
  for (size_t dim = 0; dim < parts_.size(); ++dim) {
    const std::vector<Places>& order = plan_.halos[dim].order[static_cast<size_t>(parts_[dim])];
    order_.push_back(order.empty() ? at::Tensor() : indices_of(order));
    pads_.push_back(plan_.windows[dim].transposed ? Pads{} : plan_.halos[dim].pads[static_cast<size_t>(parts_[dim])]);
    has_values_ |= plan_.halos[dim].edges.has_values() && pads_.back() != Pads{};
  }
  room_ = beyond(layout, plan_.fetched, grid.world().rank());
  for (size_t dim = 0; dim < room_.size(); ++dim)
    room_[dim] = {room_[dim].left + pads_[dim].left, room_[dim].right + pads_[dim].right};
  if (std::ranges::all_of(pads_, [](const Pads& pads) { return pads == Pads{}; })) pads_.clear();
}

at::Tensor HaloExchange::operator()(const at::Tensor& x, const at::Tensor& room) const {
  const bool is_in_room = !x.requires_grad() && !tangent_of(x).defined() && is_inside(x, room, room_);
  at::Tensor y = fetch_.padded(x, pads_, fill_, is_in_room ? room : at::Tensor());
  if (has_values_) write_values(y);
  for (size_t dim = 0; dim < order_.size(); ++dim)
    if (order_[dim].defined()) y = at::index_select(y, static_cast<int64_t>(dim), order_[dim]);
  return y;
}

/// No gradient depends on what is written: that of a margin is dropped.
void HaloExchange::write_values(const at::Tensor& y) const {
  const at::NoGradGuard none;
  for (size_t d = 0; d < pads_.size(); ++d) {
    const Edges& edges = plan_.halos[d].edges;
    if (!edges.has_values()) continue;
    const auto dim = static_cast<int64_t>(d);
    y.detach().narrow(dim, 0, pads_[d].left).fill_(edges.value_before);
    y.detach().narrow(dim, y.size(dim) - pads_[d].right, pads_[d].right).fill_(edges.value_after);
  }
}

at::Tensor halo_exchange(const at::Tensor& x, const Layout& layout, const std::vector<Window>& windows,
                         const Edges& edges, const Grid& grid) {
  return HaloExchange(layout, windows, edges, grid)(x);
}

}  // namespace adjoin
