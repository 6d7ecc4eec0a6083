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

/// What a tensor is, seen along one group of workers; docs/gradient-convention.md explains the four.
enum class Kind : uint8_t {
  split,       ///< each worker holds its own piece; so does its gradient
  replicated,  ///< one logical tensor that all hold and treat the same; the gradient is replicated too
  copied,      ///< equal values, each used for the worker's own part of the work; the gradient is partial
  partial,     ///< the logical tensor is the sum of what the workers hold; the gradient is copied
};

/// The kind of a tensor's gradient: copied and partial swap, the other two stay.
Kind dual(Kind kind);
const char* name(Kind kind);

/// Where the elements of a global tensor lie on a grid of workers: each dim is whole or cut over one or more axes; along
/// every other axis the tensor is replicated, copied or partial. Pure arithmetic. Copies share what they say.
///
/// A worker outside the grid holds a zero-volume tensor.
class Layout {
 public:
  /// A dim that is cut over axes: part p belongs to the workers whose coordinates on `axes` count p, row-major.
  struct Cut {
    Split split;
    std::vector<std::string> axes;
    bool operator==(const Cut&) const = default;
  };

  /// An axis that cuts nothing is replicated unless `kinds` says another kind.
  /// Throws: InvalidArgument where a cut's dim or size does not fit `shape`, its parts are not as many as its axes have
  ///         workers, an axis is used twice or is not the grid's, or `kinds` names an axis that cuts or the kind split.
  Layout(GridShape grid, std::vector<int64_t> shape, std::vector<Cut> cuts = {},
         std::map<std::string, Kind> kinds = {});

  const GridShape& grid() const { return state_->grid; }
  const std::vector<int64_t>& shape() const { return state_->shape; }
  int64_t dims() const { return static_cast<int64_t>(shape().size()); }
  /// The cut of each dim; one without axes and with one part where the dim is whole.
  const std::vector<Cut>& cuts() const { return state_->cuts; }
  const Split& split(int64_t dim) const { return cuts()[static_cast<size_t>(dim)].split; }
  /// Of each axis that cuts nothing.
  std::map<std::string, Kind> kinds() const;
  Kind kind(std::string_view axis) const { return state_->kinds[static_cast<size_t>(grid().axis_index(axis))]; }
  /// The axes along which the tensor is of a kind, in the grid's order.
  std::vector<std::string> axes(Kind kind) const;
  /// Whether every element lies in one piece, copies aside: no dim has a covering split.
  bool is_exact() const;

  /// The layout of the gradient: copied and partial swap.
  Layout dual() const;
  /// The same pieces with `kind` along an axis that cuts nothing.
  Layout with_kind(const std::string& axis, Kind kind) const;
  /// The same with another dim cut, or cut otherwise.
  Layout with_cut(Cut cut) const;

  /// The same cuts and kinds on another grid, whose further axes of more than one worker are of kind `elsewhere`.
  /// Throws: InvalidArgument where an axis that cuts or has more than one worker is not as large there
  Layout on(const GridShape& other, Kind elsewhere) const;

  /// The part of each dim that a cell of the grid owns; 0 for a dim that is whole.
  std::vector<int> parts_of(int cell) const;
  /// The shape of a cell's piece.
  std::vector<int64_t> shape_of(int cell) const;
  /// The shape of what a rank of the world holds: {0} outside the grid.
  std::vector<int64_t> shape_on(int rank) const;
  /// For each dim, the global indices of a cell's piece, in the order in which it stores them.
  std::vector<std::vector<Range>> ranges_of(int cell) const;
  /// Calls `visit(local, global, count)` for each run of elements of a cell's piece that is a run of the global tensor
  /// too: where it begins in both, row-major, in the order of the piece.
  void visit_runs(int cell, const std::function<void(int64_t local, int64_t global, int64_t count)>& visit) const;

  bool operator==(const Layout&) const = default;
  /// "[4, 6] on {dp: 2, tp: 3}: dim 0 of 4 as 2, 2 over dp; tp copied"
  std::string to_string() const;
  /// One JSON object: shape, axes, ranks, the ranges of each cut dim's parts, and the kind along each other axis.
  std::string to_json() const;

 private:
  struct State {
    GridShape grid;
    std::vector<int64_t> shape;
    std::vector<Cut> cuts = {};    // of each dim
    std::vector<Kind> kinds = {};  // of each axis
    bool operator==(const State&) const = default;
  };
  explicit Layout(State state) : state_(std::move(state)) {}
  static State checked(State state, std::vector<Cut> cuts, const std::map<std::string, Kind>& kinds);

  Shared<State> state_;
};

/// How a tensor of this layout is stored: copies of one value are one value, so copied is replicated.
Layout stored(const Layout& layout);

/// The workers at coordinate 0 of each axis along which a tensor is copied: each distinct piece is held there.
Layout first_copy(const Layout& layout);

/// "[4, 6]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace adjoin
