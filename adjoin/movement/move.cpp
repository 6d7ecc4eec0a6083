#include "adjoin/movement/move.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <optional>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/exchange.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/mappings.hpp"

namespace adjoin {
namespace {

using Way = MoveKind::Way;

/// The pads in the order that LibTorch requires.
std::vector<int64_t> last_first(const std::vector<Pads>& pads) {
  std::vector<int64_t> numbers;
  for (size_t dim = pads.size(); dim-- > 0;) numbers.insert(numbers.end(), {pads[dim].left, pads[dim].right});
  return numbers;
}

/// Fills a tensor's margins.
void fill_margins(const at::Tensor& y, const std::vector<Pads>& pads, double fill) {
  for (size_t dim = 0; dim < pads.size(); ++dim) {
    const auto d = static_cast<int64_t>(dim);
    if (pads[dim].left > 0) y.narrow(d, 0, pads[dim].left).fill_(fill);
    if (pads[dim].right > 0) y.narrow(d, y.size(d) - pads[dim].right, pads[dim].right).fill_(fill);
  }
}

at::Tensor empty_with_margins(const at::TensorOptions& options, std::vector<int64_t> shape,
                              const std::vector<Pads>& pads) {
  for (size_t dim = 0; dim < pads.size(); ++dim) shape[dim] += pads[dim].left + pads[dim].right;
  return at::empty(shape, options);
}

/// Whether each worker already has what it needs, in its final form.
bool is_identity(const MoveKind& kind) {
  return kind.way == Way::local && kind.taken.empty();
}

/// One direction of a move, without autograd.
class Passage {
 public:
  Passage(const Layout& from, const Layout& to, const Grid& grid)
      : from_(from),
        to_(to),
        kind_(kind_of_move(from, to)),
        rank_(grid.world().rank()),
        own_shape_(from.shape_on(rank_)) {
    if (kind_.way == Way::exchange)
      exchange_.emplace(plan_move(from_, to_, rank_), to_.shape_on(rank_), grid.world());
    else if (const auto cell = from_.grid().cell_of(rank_)) {
      parts_ = to_.parts_of(*cell);
      if (kind_.way != Way::local) group_ = grid.group_along(from_.grid(), kind_.axes);
    }
  }

  void check(const at::Tensor& x) const {
    if (x.sizes() != own_shape_ || x.layout() != at::kStrided) check_piece("move", x, from_, rank_);
  }

  at::Tensor operator()(const at::Tensor& x, const std::vector<Pads>& pads, const at::Tensor& room = {}) {
    check(x);
    if (kind_.way != Way::exchange)
      return pads.empty() ? carried(x) : at::constant_pad_nd(carried(x), last_first(pads));
    if (pads.empty() && !room.defined()) return (*exchange_)(x);
    const at::TensorOptions options = x.options().requires_grad(false);
    const at::Tensor y = room.defined() ? room : empty_with_margins(options, to_.shape_on(rank_), pads);
    fill_margins(y, pads, 0);
    exchange_->into(x, within(y, pads));
    return y;
  }

 private:
  /// For a move that a collective carries, or that moves nothing.
  at::Tensor carried(const at::Tensor& x) {
    if (!from_.grid().cell_of(rank_)) return at::empty({0}, x.options().requires_grad(false));
    at::Tensor y = x;
    for (const int64_t dim : kind_.taken) y = take_block(y, to_.split(dim), parts_[static_cast<size_t>(dim)]);
    switch (kind_.way) {
      case Way::all_reduce:
        return sum(y, group_);
      case Way::all_gather:
        return join_blocks(y, group_, from_.split(kind_.dim));
      case Way::reduce_scatter:
        return sum_blocks(y, group_, to_.split(kind_.dim));
      default:
        return y;
    }
  }

  const Layout from_, to_;
  const MoveKind kind_;
  const int rank_;
  const std::vector<int64_t> own_shape_;
  std::vector<int> parts_;
  Communicator group_;
  std::optional<Exchange> exchange_;
};

}  // namespace

struct Move::State {
  State(Layout f, Layout t, const Grid& g) : from(std::move(f)), to(std::move(t)), grid(g) {
    check_move(from, to);
    for (const Layout* layout : {&from, &to})
      for (const int rank : layout->grid().ranks())
        require(rank < grid.world().size(), [&] {
          return "move: expected a world that has rank " + std::to_string(rank) + ", got one of " +
                 std::to_string(grid.world().size()) + " ranks; the layout is " + layout->to_string();
        });
    const GridShape both = GridShape::united(from.grid(), to.grid());
    takes_part = both.cell_of(grid.world().rank()).has_value();
    if (!takes_part) return;
    forward.emplace(from, to, grid);
    moves_nothing = is_identity(kind_of_move(from, to)) && is_identity(kind_of_move(to.dual(), from.dual()));
    if (grid.world().checked() && !moves_nothing) workers = grid.group_of(both.ranks());
  }

  Layout from, to;
  Grid grid;
  bool takes_part = false, moves_nothing = false;
  Communicator workers;                     // all that take part, in checked mode
  std::optional<Passage> forward, adjoint;  // the adjoint is prepared when backward first needs it
  std::optional<Move> of_reals;             // the same for a complex tensor, as pairs of reals
};

Move::Move(Layout from, Layout to, const Grid& grid)
    : state_(std::make_shared<State>(std::move(from), std::move(to), grid)) {}

const Layout& Move::from() const {
  return state_->from;
}

const Layout& Move::to() const {
  return state_->to;
}

at::Tensor Move::operator()(const at::Tensor& x, CallSite::Where where) const {
  const CallSite site(where);
  return padded(x, {}, 0);
}

at::Tensor within(at::Tensor y, const std::vector<Pads>& pads) {
  for (size_t dim = 0; dim < pads.size(); ++dim) {
    const auto d = static_cast<int64_t>(dim);
    if (pads[dim] != Pads{}) y = y.narrow(d, pads[dim].left, y.size(d) - pads[dim].left - pads[dim].right);
  }
  return y;
}

at::Tensor Move::padded(const at::Tensor& x, const std::vector<Pads>& pads, double fill, const at::Tensor& room) const {
  State& state = *state_;
  if (!state.takes_part) {
    require(x.numel() == 0, "move: expected a tensor of no elements on a worker outside both grids");
    return x.reshape({0});  // stays in the graph, for later movements in which this worker takes part
  }
  if (state.moves_nothing) {  // neither forward nor backward
    state.forward->check(x);
    if (pads.empty()) return x;
    if (!room.defined()) return at::constant_pad_nd(x, last_first(pads), fill);
    fill_margins(room, pads, fill);
    return room;
  }
  if (x.is_complex()) {
    if (!state.of_reals) state.of_reals.emplace(with_pairs(state.from), with_pairs(state.to), state.grid);
    std::vector<Pads> of_pairs = pads;
    if (!pads.empty()) of_pairs.emplace_back();
    return on_reals(x, [&](const at::Tensor& pairs) { return state.of_reals->padded(pairs, of_pairs, fill); });
  }
  const at::Tensor y = apply(
      {.forward = [s = state_, pads, room](const at::Tensor& t) { return (*s->forward)(t, pads, room); },
       .adjoint =
           [s = state_, pads](const at::Tensor& t) {
             if (!s->adjoint) s->adjoint.emplace(s->to.dual(), s->from.dual(), s->grid);
             return (*s->adjoint)(within(t, pads), {});
           },
       .kinds = MovedKinds{.name = "move", .layouts = std::pair(state.from, state.to), .group = state.grid.world()}},
      x, state.workers);
  if (fill != 0) {  // afterwards: a constant is no part of the linear map, and so has no derivative
    const at::NoGradGuard no_gradient;
    fill_margins(y, pads, fill);
  }
  return y;
}

at::Tensor move(const at::Tensor& x, const Layout& from, const Layout& to, const Grid& grid, CallSite::Where where) {
  const CallSite site(where);
  return Move(from, to, grid)(x);
}

at::Tensor all_to_all(const at::Tensor& x, const Communicator& group, const Split& from, const Split& to,
                      CallSite::Where where) {
  const CallSite site(where);
  const Grid grid(group, {{"ranks", group.size()}});
  std::vector<int64_t> shape = x.sizes().vec();
  shape.at(static_cast<size_t>(from.dim())) = from.size();
  const auto cut = [&](const Split& split) { return Layout(grid.shape(), shape, {{split, {"ranks"}}}); };
  return move(x, cut(from), cut(to), grid);
}

at::Tensor broadcast(const at::Tensor& x, const Layout& from, const GridShape& to, const Grid& grid,
                     CallSite::Where where) {
  const CallSite site(where);
  return move(x, from, from.on(to, Kind::copied), grid);
}

at::Tensor sum_reduce(const at::Tensor& x, const GridShape& from, const Layout& to, const Grid& grid,
                      CallSite::Where where) {
  const CallSite site(where);
  return move(x, to.on(from, Kind::partial), to, grid);
}

}  // namespace adjoin
