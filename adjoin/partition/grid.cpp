#include "adjoin/partition/grid.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "adjoin/base/error.hpp"

namespace adjoin {

GridShape::GridShape(std::vector<Axis> axes, std::vector<int> ranks)
    : axes_(std::move(axes)), ranks_(std::move(ranks)) {
  int cells = 1;
  std::set<std::string> names;
  for (const Axis& axis : axes_) {
    require(axis.size >= 1, [&] {
      return "grid: expected axis '" + axis.name + "' to have at least 1 worker, got " + std::to_string(axis.size);
    });
    require(!axis.name.empty() && names.insert(axis.name).second,
            [&] { return "grid: expected different axis names that are not empty, got '" + axis.name + "'"; });
    cells *= axis.size;
  }
  if (ranks_.empty()) {
    ranks_.resize(static_cast<size_t>(cells));
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  require(static_cast<int>(ranks_.size()) == cells, [&] {
    return "grid: expected " + std::to_string(cells) + " ranks, one for each cell, got " +
           std::to_string(ranks_.size());
  });
  require(std::set<int>(ranks_.begin(), ranks_.end()).size() == ranks_.size(),
          "grid: expected different ranks, one is named twice");
}

int GridShape::axis_index(std::string_view axis) const {
  std::string known;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) return static_cast<int>(i);
    known += (i ? ", " : "") + axes_[i].name;
  }
  throw InvalidArgument("grid: expected one of the axes " + known + ", got '" + std::string(axis) + "'");
}

std::optional<int> GridShape::cell_of(int rank) const {
  const auto at = std::find(ranks_.begin(), ranks_.end(), rank);
  if (at == ranks_.end()) return std::nullopt;
  return static_cast<int>(at - ranks_.begin());
}

std::vector<int> GridShape::coordinates(int cell) const {
  std::vector<int> result(axes_.size());
  for (size_t i = axes_.size(); i-- > 0; cell /= axes_[i].size) result[i] = cell % axes_[i].size;
  return result;
}

int GridShape::cell_at(const std::vector<int>& coordinates) const {
  int cell = 0;
  for (size_t i = 0; i < axes_.size(); ++i) cell = cell * axes_[i].size + coordinates[i];
  return cell;
}

std::vector<int> GridShape::cells_along(int cell, const std::vector<std::string>& axes) const {
  std::vector<std::vector<int>> found{coordinates(cell)};
  for (const std::string& axis : axes) {
    const auto index = static_cast<size_t>(axis_index(axis));
    std::vector<std::vector<int>> extended;
    for (std::vector<int>& coordinates : found)
      for (coordinates[index] = 0; coordinates[index] < axes_[index].size; ++coordinates[index])
        extended.push_back(coordinates);
    found = std::move(extended);
  }
  std::vector<int> cells;
  for (const auto& coordinates : found) cells.push_back(cell_at(coordinates));
  return cells;
}

Grid::Grid(Communicator world, std::vector<GridShape::Axis> axes)
    : Grid(std::move(world), GridShape(std::move(axes))) {}

Grid::Grid(Communicator world, GridShape shape)
    : world_(std::move(world)),
      shape_(std::move(shape)),
      groups_(std::make_shared<std::map<std::vector<std::string>, Communicator>>()) {
  const int largest = *std::max_element(shape_.ranks().begin(), shape_.ranks().end());
  require(largest < world_.size(), [&] {
    return "grid: expected a world of at least " + std::to_string(largest + 1) + " ranks, got " +
           std::to_string(world_.size());
  });
  cell_ = shape_.cell_of(world_.rank());
  if (cell_)
    for (const auto& axis : shape_.axes()) group({axis.name});
}

int Grid::cell() const {
  require(has_me(), [&] { return "grid: rank " + std::to_string(world_.rank()) + " is not a worker of the grid"; });
  return *cell_;
}

int Grid::coordinate(std::string_view axis) const {
  return shape_.coordinates(cell())[static_cast<size_t>(shape_.axis_index(axis))];
}

const Communicator& Grid::axis(std::string_view axis) const {
  return group({std::string(axis)});
}

const Communicator& Grid::group(const std::vector<std::string>& axes) const {
  if (const auto found = groups_->find(axes); found != groups_->end()) return found->second;
  std::vector<int> ranks;
  for (const int c : shape_.cells_along(cell(), axes)) ranks.push_back(shape_.rank_of(c));
  return groups_->emplace(axes, world_.subset(ranks)).first->second;
}

}  // namespace adjoin
