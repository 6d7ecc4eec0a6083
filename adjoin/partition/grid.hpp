#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// The arithmetic of a Cartesian arrangement of workers with named axes: row-major, the last axis fastest.
class GridShape {
 public:
  struct Axis {
    std::string name;
    int size = 1;
    bool operator==(const Axis&) const = default;
  };

  /// Cell c of the grid is rank ranks[c] of the world; without `ranks`, cell c is rank c.
  /// Throws: InvalidArgument for a size below 1, a name that is empty or used twice, or unless `ranks` has a
  ///         different number for each cell.
  explicit GridShape(std::vector<Axis> axes, std::vector<int> ranks = {});

  /// A grid whose axes are named by their positions: "0", "1", … (DistDL's partitions).
  static GridShape positional(const std::vector<int>& sizes, std::vector<int> ranks = {});
  /// The ranks of both grids, each once, in ascending order, along one axis "ranks".
  static GridShape united(const GridShape& a, const GridShape& b);
  /// The cells at one coordinate of an axis, as a grid of the other axes.
  /// Throws: InvalidArgument for an axis or a coordinate that is not there
  GridShape at(std::string_view axis, int coordinate) const;
  /// The cells at some coordinates of an axis, in that order, as a grid of the same axes.
  /// Throws: InvalidArgument for an axis or a coordinate that is not there, or for a coordinate given twice
  GridShape among(std::string_view axis, const std::vector<int>& coordinates) const;

  int cells() const { return static_cast<int>(ranks_.size()); }
  const std::vector<Axis>& axes() const { return axes_; }
  /// The index of an axis. Throws: InvalidArgument that lists the axes where there is none of that name.
  int axis_index(std::string_view axis) const;
  int axis_size(std::string_view axis) const { return axes_[static_cast<size_t>(axis_index(axis))].size; }

  int rank_of(int cell) const { return ranks_[static_cast<size_t>(cell)]; }
  const std::vector<int>& ranks() const { return ranks_; }
  /// The cell of a rank of the world; none where the grid does not use that rank.
  std::optional<int> cell_of(int rank) const;
  std::vector<int> coordinates(int cell) const;
  int cell_at(const std::vector<int>& coordinates) const;
  /// The ranks that differ from `rank`, which is in the grid, along the named axes only, and `rank` itself, in row-major order
  /// of the axes as named.
  std::vector<int> ranks_along(int rank, const std::vector<std::string>& axes) const;

  bool operator==(const GridShape&) const = default;
  /// "{dp: 2, tp: 4}", with the ranks where they are not 0, 1, …
  std::string to_string() const;

 private:
  std::vector<Axis> axes_;
  std::vector<int> ranks_;
  std::vector<int> cells_by_rank_;  // sorted by rank; empty where cell c is rank c
};

/// One worker's view of a grid: its coordinates, and a communicator for each axis.
///
/// Constructed by all ranks of the world together. The grid may use only some of them; a worker outside it has no coordinates
/// and no axis communicators. Copies share all data; communicators are stored by their ranks.
class Grid {
 public:
  /// Throws: InvalidArgument where the world has fewer ranks than the grid needs.
  Grid(Communicator world, GridShape shape);
  /// As Grid(world, GridShape(axes)): `Grid(world, {{"dp", 2}, {"tp", 4}})`.
  Grid(Communicator world, std::vector<GridShape::Axis> axes);

  const GridShape& shape() const { return state_->shape; }
  const Communicator& world() const { return state_->world; }
  /// The ranks that call what works on the grid: all of the world, or those of this grid alone if it is at a coordinate of another.
  const std::vector<int>& workers() const { return state_->workers; }
  bool has_me() const { return state_->cell.has_value(); }
  /// Throws: InvalidArgument for a worker outside the grid (also cell, coordinate, axis).
  int cell() const;
  int coordinate(std::string_view axis) const;
  /// This worker and those that differ from it along this axis only, ranked by their coordinate on it.
  const Communicator& axis(std::string_view axis) const;
  /// The same along several axes, ranked in row-major order of the axes as named. The first request for a group is made by all
  /// workers of the grid together.
  const Communicator& group(const std::vector<std::string>& axes) const;
  /// The workers at one coordinate of an axis, as a grid of the other axes; it shares this grid's communicators.
  /// Throws: InvalidArgument as GridShape::at
  Grid at(std::string_view axis, int coordinate) const;
  /// The same along axes of `shape`, another grid of the world that contains this worker; this worker alone where it is the
  /// only one.
  Communicator group_along(const GridShape& shape, const std::vector<std::string>& axes) const;
  /// The group of the given ranks of the world, in that order; the first request for it is made by all of them together.
  const Communicator& group_of(const std::vector<int>& ranks) const;

 private:
  using Groups = std::map<std::vector<int>, Communicator>;  // by their ranks in the world
  struct State {
    Communicator world;
    GridShape shape;
    std::vector<int> workers;
    std::shared_ptr<Groups> groups;  // shared with grids at a coordinate of this one
    std::optional<int> cell = {};
  };
  Grid(Communicator world, GridShape shape, std::vector<int> workers, std::shared_ptr<Groups> groups);

  std::shared_ptr<State> state_;
};

}  // namespace adjoin
