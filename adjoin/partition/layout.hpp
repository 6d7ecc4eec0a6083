#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/base/shared.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin {

/// The kind of a tensor along one group of workers; docs/gradient-convention.md explains the four.
enum class Kind : uint8_t {
  split,       ///< each worker holds its own piece, and its own piece of the gradient
  replicated,  ///< one logical tensor that all hold and treat the same; the gradient is replicated too
  copied,      ///< equal values, each used for the worker's own part of the work; the gradient is partial
  partial,     ///< the logical tensor is the sum of what the workers hold; the gradient is copied
};

/// The kind of a tensor's gradient: copied and partial swap, the other two stay.
Kind dual(Kind kind);
const char* name(Kind kind);

/// How the elements of a global tensor are distributed over a grid of workers: each dim is whole or cut over one or more axes;
/// along every other axis the tensor is replicated, copied or partial. Pure arithmetic. Copies share their data.
///
/// A worker outside the grid holds a zero-volume tensor.
class Layout {
 public:
  /// A dim that is cut over axes: part p belongs to the workers whose coordinates on `axes`, counted row-major, give p.
  struct Cut {
    Split split;
    std::vector<std::string> axes;
    bool operator==(const Cut&) const = default;
  };

  /// An axis that cuts nothing is replicated unless `kinds` says another kind.
  /// Throws: InvalidArgument where a cut's dim or size does not fit `shape`, the number of its parts is not that of its axes'
  ///         workers, an axis is used twice or is not in the grid, or `kinds` names an axis that cuts or the kind split.
  Layout(GridShape grid, std::vector<int64_t> shape, std::vector<Cut> cuts = {},
         std::map<std::string, Kind> kinds = {});

  const GridShape& grid() const { return state_->grid; }
  const std::vector<int64_t>& shape() const { return state_->shape; }
  int64_t dims() const { return static_cast<int64_t>(shape().size()); }
  /// The cut of each dim; for a whole dim, a cut with one part and no axes.
  const std::vector<Cut>& cuts() const { return state_->cuts; }
  const Split& split(int64_t dim) const { return cuts()[static_cast<size_t>(dim)].split; }
  /// The kind of each axis that cuts nothing.
  std::map<std::string, Kind> kinds() const;
  Kind kind(std::string_view axis) const { return state_->kinds[static_cast<size_t>(grid().axis_index(axis))]; }
  /// The axes along which the tensor is of this kind, in the grid's order.
  std::vector<std::string> axes(Kind kind) const;
  /// Whether every element is in one piece only, apart from copies: no dim has a covering split.
  bool is_exact() const;

  /// The layout of the gradient: copied and partial swap.
  Layout dual() const;
  /// The same pieces with `kind` along an axis that cuts nothing.
  Layout with_kind(const std::string& axis, Kind kind) const;
  /// The same with another dim cut, or with a dim cut in another way.
  Layout with_cut(Cut cut) const;

  /// The same cuts and kinds on another grid; along its additional axes with more than one worker the kind is `elsewhere`.
  /// Throws: InvalidArgument where an axis that cuts or has more than one worker has another size there
  Layout on(const GridShape& other, Kind elsewhere) const;

  /// The part of each dim that a cell of the grid owns; 0 for a dim that is whole.
  std::vector<int> parts_of(int cell) const;
  /// The shape of a cell's piece.
  std::vector<int64_t> shape_of(int cell) const;
  /// The shape of what a rank of the world holds: {0} outside the grid.
  std::vector<int64_t> shape_on(int rank) const;
  /// For each dim, the global indices of a cell's piece, in the order in which it stores them.
  std::vector<std::vector<Range>> ranges_of(int cell) const;
  /// Calls `visit(local, global, count)` for each run of elements that is contiguous both in a cell's piece and in the global
  /// tensor: `local` and `global` are where it begins in each, row-major. The order is that of the piece.
  void visit_runs(int cell, const std::function<void(int64_t local, int64_t global, int64_t count)>& visit) const;

  bool operator==(const Layout&) const = default;
  /// Copies have equal ids; another layout has another one as long as both live.
  const void* id() const { return state_.id(); }
  /// "[4, 6] on {dp: 2, tp: 3}: dim 0 of 4 as 2, 2 over dp; tp copied"
  std::string to_string() const;
  /// One JSON object: shape, axes, ranks, the ranges of each cut dim's parts, and the kind along each other axis.
  std::string to_json() const;

 private:
  struct State {
    GridShape grid;
    std::vector<int64_t> shape;
    std::vector<Cut> cuts = {};    // for each dim
    std::vector<Kind> kinds = {};  // for each axis
    bool operator==(const State&) const = default;
  };
  explicit Layout(State state) : state_(std::move(state)) {}
  static State checked(State state, std::vector<Cut> cuts, const std::map<std::string, Kind>& kinds);

  Shared<State> state_;
};

/// How a tensor of this layout is stored: copies of one value count as one value, so copied becomes replicated.
Layout stored(const Layout& layout);

/// The layout on the workers at coordinate 0 of each axis along which the tensor is copied: they hold each distinct piece.
Layout first_copy(const Layout& layout);

/// "[4, 6]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace adjoin
