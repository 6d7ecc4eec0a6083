#include "adjoin/partition/move_plan.hpp"

#include <algorithm>
#include <span>
#include <tuple>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

using Names = std::vector<std::string>;

template <class Item>
bool contains(const std::vector<Item>& items, const Item& item) {
  return std::ranges::find(items, item) != items.end();
}

/// The axes that are copied in both, or partial in both: their coordinates never mix.
Names staying_axes(const Layout& from, const Layout& to) {
  Names staying;
  for (const GridShape::Axis& axis : from.grid().axes()) {
    const Kind kind = from.kind(axis.name);
    if ((kind == Kind::copied || kind == Kind::partial) && contains(to.grid().axes(), axis) &&
        to.kind(axis.name) == kind)
      staying.push_back(axis.name);
  }
  return staying;
}

/// The axes of this kind that do not stay.
Names moving_axes(const Layout& layout, Kind kind, const Names& staying) {
  Names moving;
  for (const std::string& axis : layout.axes(kind))
    if (!contains(staying, axis)) moving.push_back(axis);
  return moving;
}

/// Numbers the coordinates on some axes of a grid, row-major.
class Counter {
 public:
  Counter(const GridShape& grid, const Names& axes) : grid_(&grid) {
    for (const std::string& axis : axes) {
      axes_.push_back(grid.axis_index(axis));
      total_ *= grid.axis_size(axis);
    }
  }
  int total() const { return total_; }
  int of(const std::vector<int>& coordinates) const {
    int number = 0;
    for (const int axis : axes_) number = number * size(axis) + coordinates[static_cast<size_t>(axis)];
    return number;
  }
  void write(int number, std::vector<int>& coordinates) const {
    for (size_t i = axes_.size(); i-- > 0; number /= size(axes_[i]))
      coordinates[static_cast<size_t>(axes_[i])] = number % size(axes_[i]);
  }

 private:
  int size(int axis) const { return grid_->axes()[static_cast<size_t>(axis)].size; }
  const GridShape* grid_;
  std::vector<int> axes_;
  int total_ = 1;
};

/// The cells of one side of a move, selected by their parts and by their coordinates on other axes.
class Side {
 public:
  Side(const Layout& layout, const Names& staying) : staying_(layout.grid(), staying), grid_(layout.grid()) {
    for (const Layout::Cut& cut : layout.cuts()) parts_.emplace_back(grid_, cut.axes);
  }

  /// The coordinates of the cells with these parts and this number on the staying axes, as staying_of() gives it for a cell of
  /// either side; on all other axes 0.
  std::vector<int> coordinates(const std::vector<int>& parts, int of_staying) const {
    std::vector<int> result(grid_.axes().size(), 0);
    for (size_t dim = 0; dim < parts_.size(); ++dim) parts_[dim].write(parts[dim], result);
    staying_.write(of_staying, result);
    return result;
  }
  int staying_of(const std::vector<int>& coordinates) const { return staying_.of(coordinates); }

 private:
  std::vector<Counter> parts_;  // for each dim
  Counter staying_;
  const GridShape& grid_;
};

/// One move, as seen by any of its workers.
class Planner {
 public:
  Planner(const Layout& from, const Layout& to)
      : from_(from),
        to_(to),
        staying_(staying_axes(from, to)),
        sources_(from, staying_),
        targets_(to, staying_),
        replicas_(from.grid(), moving_axes(from, Kind::replicated, staying_)),
        summands_(from.grid(), moving_axes(from, Kind::partial, staying_)),
        copies_(to.grid(), copy_axes()) {}

  int summands() const { return summands_.total(); }

  std::vector<Piece> sends(int cell) const {
    const std::vector<int> mine = from_.grid().coordinates(cell);
    const int staying = sources_.staying_of(mine);
    const int summand = summands_.of(mine);
    std::vector<Piece> pieces;
    visit_boxes(from_, from_.parts_of(cell), to_, [&](const std::vector<int>& parts, const auto& add_boxes) {
      std::vector<int> target = targets_.coordinates(parts, staying);
      for (int copy = 0; copy < copies_.total(); ++copy) {
        copies_.write(copy, target);
        const int target_cell = to_.grid().cell_at(target);
        if (source_of(mine, target_cell, summand) == cell) add_boxes(pieces, to_.grid().rank_of(target_cell), summand);
      }
    });
    return pieces;
  }

  std::vector<Piece> receives(int cell) const {
    const int staying = targets_.staying_of(to_.grid().coordinates(cell));
    std::vector<Piece> pieces;
    visit_boxes(to_, to_.parts_of(cell), from_, [&](const std::vector<int>& parts, const auto& add_boxes) {
      const std::vector<int> holder = sources_.coordinates(parts, staying);
      for (int summand = 0; summand < summands_.total(); ++summand)
        add_boxes(pieces, from_.grid().rank_of(source_of(holder, cell, summand)), summand);
    });
    return pieces;
  }

 private:
  Names copy_axes() const {
    Names axes = moving_axes(to_, Kind::replicated, staying_);
    for (const std::string& axis : moving_axes(to_, Kind::copied, staying_)) axes.push_back(axis);
    return axes;
  }

  /// Several cells hold the same as the cell at `holder`. Returns the one that gives the summand to a cell of `to`.
  int source_of(std::vector<int> holder, int target_cell, int summand) const {
    summands_.write(summand, holder);
    if (replicas_.total() > 1) {
      replicas_.write(target_cell % replicas_.total(), holder);
      if (const auto own = from_.grid().cell_of(to_.grid().rank_of(target_cell))) {
        std::vector<int> candidate = holder;
        replicas_.write(replicas_.of(from_.grid().coordinates(*own)), candidate);
        if (from_.grid().cell_at(candidate) == *own) return *own;
      }
    }
    return from_.grid().cell_at(holder);
  }

  /// Calls `visit(parts, add_boxes)` for the parts of the other layout that overlap these parts of `mine`; add_boxes(pieces,
  /// peer, summand) appends the boxes, in an order that is the same on both sides.
  template <class Visit>
  static void visit_boxes(const Layout& mine, const std::vector<int>& my_parts, const Layout& theirs,
                          const Visit& visit) {
    const size_t dims = my_parts.size();
    std::vector<std::vector<Overlap>> found(dims);                    // for each dim, by the part of the other layout
    std::vector<std::vector<std::span<const Overlap>>> groups(dims);  // for each dim, the overlaps with one part
    for (size_t d = 0; d < dims; ++d) {
      const auto dim = static_cast<int64_t>(d);
      found[d] = overlaps(mine.split(dim), my_parts[d], theirs.split(dim));
      const auto key = [](const Overlap& o) {
        return std::tuple(o.to, o.range.begin, o.from_offset + o.to_offset);  // the same on both sides
      };
      std::sort(found[d].begin(), found[d].end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
      for (size_t begin = 0, end = 0; begin < found[d].size(); begin = end) {
        while (end < found[d].size() && found[d][end].to == found[d][begin].to) ++end;
        groups[d].push_back(std::span(found[d]).subspan(begin, end - begin));
      }
      if (groups[d].empty()) return;
    }
    std::vector<size_t> group(dims, 0);
    std::vector<int> parts(dims);
    do {
      for (size_t d = 0; d < dims; ++d) parts[d] = groups[d][group[d]][0].to;
      visit(parts, [&](std::vector<Piece>& pieces, int peer, int summand) {
        std::vector<size_t> box(dims, 0);
        do {
          Piece& piece = pieces.emplace_back(Piece{peer, {}, {}, summand});
          for (size_t d = 0; d < dims; ++d) {
            const Overlap& overlap = groups[d][group[d]][box[d]];
            piece.offset.push_back(overlap.from_offset);
            piece.sizes.push_back(overlap.range.size());
          }
        } while (advance(box, [&](size_t d) { return groups[d][group[d]].size(); }));
      });
    } while (advance(group, [&](size_t d) { return groups[d].size(); }));
  }

  /// Advances to the next combination in row-major order; false after the last one.
  template <class Limit>
  static bool advance(std::vector<size_t>& place, const Limit& limit) {
    for (size_t d = place.size(); d-- > 0;) {
      if (++place[d] < limit(d)) return true;
      place[d] = 0;
    }
    return false;
  }

  const Layout &from_, &to_;
  const Names staying_;
  const Side sources_, targets_;
  const Counter replicas_, summands_, copies_;
};

/// Whether nothing is cut, even if an axis with one worker is named.
bool is_whole(const Layout::Cut& cut) {
  return cut.split.parts() == 1 && cut.split.in_order();
}

bool are_alike(const Layout::Cut& a, const Layout::Cut& b) {
  return (is_whole(a) && is_whole(b)) || (a.split == b.split && a.axes == b.axes);
}

}  // namespace

void check_move(const Layout& from, const Layout& to) {
  require(from.shape() == to.shape(), [&] {
    return "move: expected layouts of one shape, got " + shape_text(from.shape()) + " and " + shape_text(to.shape());
  });
  require(from.is_exact() || to.is_exact(),
          "move: expected exact splits in at least one of the two layouts, got covering splits in both");
  const Names staying = staying_axes(from, to);
  for (const std::string& axis : moving_axes(from, Kind::copied, staying))
    require(from.grid().axis_size(axis) == 1, [&] {
      return "move: a tensor that is copied along '" + axis + "' must stay copied along it, got a move from " +
             from.to_string() + " to " + to.to_string();
    });
  for (const std::string& axis : moving_axes(to, Kind::partial, staying))
    require(to.grid().axis_size(axis) == 1, [&] {
      return "move: a tensor can only stay partial along '" + axis + "', not become partial, got a move from " +
             from.to_string() + " to " + to.to_string();
    });
}

MovePlan plan_move(const Layout& from, const Layout& to, int rank) {
  check_move(from, to);
  const Planner planner(from, to);
  MovePlan plan;
  plan.summands = planner.summands();
  plan.sums = plan.summands > 1 || !from.is_exact();
  if (const auto cell = from.grid().cell_of(rank)) plan.sends = planner.sends(*cell);
  if (const auto cell = to.grid().cell_of(rank)) plan.receives = planner.receives(*cell);
  return plan;
}

MoveKind kind_of_move(const Layout& from, const Layout& to) {
  check_move(from, to);
  const MoveKind exchange{MoveKind::Way::exchange, {}, {}, 0};
  if (from.grid() != to.grid()) return exchange;
  MoveKind found{MoveKind::Way::local, {}, {}, 0};
  const auto become = [&](MoveKind::Way way, const Names& axes, int64_t dim) {
    const bool is_first = found.way == MoveKind::Way::local;
    found.way = is_first ? way : MoveKind::Way::exchange;
    found.axes = axes;
    found.dim = dim;
  };
  Names summed = moving_axes(from, Kind::partial, staying_axes(from, to));
  std::erase_if(summed, [&](const std::string& axis) { return from.grid().axis_size(axis) == 1; });
  const auto are = [&](const Names& axes, Kind kind) {
    return std::all_of(axes.begin(), axes.end(),
                       [&](const auto& axis) { return from.kind(axis) == kind || from.grid().axis_size(axis) == 1; });
  };
  for (int64_t dim = 0; dim < from.dims(); ++dim) {
    const Layout::Cut &a = from.cuts()[static_cast<size_t>(dim)], &b = to.cuts()[static_cast<size_t>(dim)];
    if (are_alike(a, b)) continue;
    if (is_whole(b) && a.split.is_exact()) {
      become(MoveKind::Way::all_gather, a.axes, dim);
    } else if (is_whole(a) && are(b.axes, Kind::replicated)) {
      found.taken.push_back(dim);
    } else if (is_whole(a) && are(b.axes, Kind::partial) && b.split.is_exact()) {
      become(MoveKind::Way::reduce_scatter, b.axes, dim);
      std::erase_if(summed, [&](const std::string& axis) { return contains(b.axes, axis); });
    } else {
      return exchange;
    }
  }
  if (!summed.empty()) become(MoveKind::Way::all_reduce, summed, 0);
  return found.way == MoveKind::Way::exchange ? exchange : found;
}

}  // namespace adjoin
