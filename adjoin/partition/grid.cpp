#include "adjoin/partition/grid.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin {

GridShape::GridShape(std::vector<Axis> axes, std::vector<int> ranks)
    : axes_(std::move(axes)), ranks_(std::move(ranks)) {
  int64_t cells = 1;
  std::set<std::string> names;
  for (const Axis& axis : axes_) {
    require(axis.size >= 1, [&] {
      return "grid: expected axis '" + axis.name + "' to have at least 1 worker, got " + std::to_string(axis.size);
    });
    require(!axis.name.empty() && names.insert(axis.name).second,
            [&] { return "grid: expected different axis names that are not empty, got '" + axis.name + "'"; });
    cells *= axis.size;
    require(cells <= std::numeric_limits<int>::max(), "grid: expected at most 2147483647 workers, got more");
  }
  if (ranks_.empty()) {
    ranks_ = all_ranks(static_cast<int>(cells));
    return;
  }
  require(static_cast<int64_t>(ranks_.size()) == cells, [&] {
    return "grid: expected " + std::to_string(cells) + " ranks, one for each cell, got " +
           std::to_string(ranks_.size());
  });
  cells_by_rank_ = all_ranks(this->cells());
  if (ranks_ == cells_by_rank_) {
    cells_by_rank_.clear();
    return;
  }
  std::sort(cells_by_rank_.begin(), cells_by_rank_.end(), [&](int a, int b) { return rank_of(a) < rank_of(b); });
  require(rank_of(cells_by_rank_.front()) >= 0,
          [&] { return "grid: expected no negative rank, got " + std::to_string(rank_of(cells_by_rank_.front())); });
  for (size_t i = 1; i < cells_by_rank_.size(); ++i)
    require(rank_of(cells_by_rank_[i - 1]) != rank_of(cells_by_rank_[i]), [&] {
      return "grid: expected different ranks, got rank " + std::to_string(rank_of(cells_by_rank_[i])) + " twice";
    });
}

GridShape GridShape::positional(const std::vector<int>& sizes, std::vector<int> ranks) {
  std::vector<Axis> axes;
  for (const int size : sizes) axes.push_back({std::to_string(axes.size()), size});
  return GridShape(std::move(axes), std::move(ranks));
}

GridShape GridShape::united(const GridShape& a, const GridShape& b) {
  std::set<int> ranks(a.ranks_.begin(), a.ranks_.end());
  ranks.insert(b.ranks_.begin(), b.ranks_.end());
  return GridShape({{"ranks", static_cast<int>(ranks.size())}}, {ranks.begin(), ranks.end()});
}

GridShape GridShape::at(std::string_view axis, int coordinate) const {
  const auto place = static_cast<size_t>(axis_index(axis));
  require(coordinate >= 0 && coordinate < axes_[place].size, [&] {
    return "grid: expected a coordinate from 0 to " + std::to_string(axes_[place].size - 1) + " on axis '" +
           axes_[place].name + "', got " + std::to_string(coordinate);
  });
  std::vector<Axis> others = axes_;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(place));
  std::vector<int> ranks;
  for (int cell = 0; cell < cells(); ++cell)
    if (coordinates(cell)[place] == coordinate) ranks.push_back(rank_of(cell));
  return GridShape(std::move(others), std::move(ranks));
}

GridShape GridShape::among(std::string_view axis, const std::vector<int>& coordinates) const {
  const auto place = static_cast<size_t>(axis_index(axis));
  for (const int coordinate : coordinates) at(axis, coordinate);  // at() checks it
  std::vector<Axis> axes = axes_;
  axes[place].size = static_cast<int>(coordinates.size());
  const GridShape numbered(axes);
  std::vector<int> ranks;
  for (int cell = 0; cell < numbered.cells(); ++cell) {
    std::vector<int> here = numbered.coordinates(cell);
    here[place] = coordinates[static_cast<size_t>(here[place])];
    ranks.push_back(rank_of(cell_at(here)));
  }
  return GridShape(std::move(axes), std::move(ranks));
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
  if (cells_by_rank_.empty()) return rank >= 0 && rank < cells() ? std::optional(rank) : std::nullopt;
  const auto at = std::lower_bound(cells_by_rank_.begin(), cells_by_rank_.end(), rank,
                                   [&](int cell, int wanted) { return rank_of(cell) < wanted; });
  if (at == cells_by_rank_.end() || rank_of(*at) != rank) return std::nullopt;
  return *at;
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

std::vector<int> GridShape::ranks_along(int rank, const std::vector<std::string>& axes) const {
  const int own = *cell_of(rank);
  std::vector<int> found{own};  // cells
  for (const std::string& axis : axes) {
    const auto index = static_cast<size_t>(axis_index(axis));
    int stride = 1;
    for (size_t later = index + 1; later < axes_.size(); ++later) stride *= axes_[later].size;
    const int coordinate = own / stride % axes_[index].size;
    std::vector<int> extended;
    extended.reserve(found.size() * static_cast<size_t>(axes_[index].size));
    for (const int cell : found)
      for (int other = 0; other < axes_[index].size; ++other) extended.push_back(cell + (other - coordinate) * stride);
    found = std::move(extended);
  }
  for (int& cell : found) cell = rank_of(cell);
  return found;
}

std::string GridShape::to_string() const {
  std::string text;
  for (const Axis& axis : axes_) text += (text.empty() ? "" : ", ") + axis.name + ": " + std::to_string(axis.size);
  text = "{" + text + "}";
  return cells_by_rank_.empty() ? text : text + " of ranks " + joined(ranks_);
}

Grid::Grid(Communicator world, std::vector<GridShape::Axis> axes)
    : Grid(std::move(world), GridShape(std::move(axes))) {}

Grid::Grid(Communicator world, GridShape shape)
    : Grid(world, std::move(shape), all_ranks(world.size()), std::make_shared<Groups>()) {}

Grid::Grid(Communicator world, GridShape shape, std::vector<int> workers, std::shared_ptr<Groups> groups)
    : state_(std::make_shared<State>(std::move(world), std::move(shape), std::move(workers), std::move(groups))) {
  const std::vector<int>& ranks = this->shape().ranks();
  const int largest = *std::max_element(ranks.begin(), ranks.end());
  require(largest < this->world().size(), [&] {
    return "grid: expected a world of at least " + std::to_string(largest + 1) + " ranks, got " +
           std::to_string(this->world().size());
  });
  state_->cell = this->shape().cell_of(this->world().rank());
  if (has_me())
    for (const auto& axis : this->shape().axes()) group({axis.name});
}

int Grid::cell() const {
  require(has_me(), [&] { return "grid: rank " + std::to_string(world().rank()) + " is not a worker of the grid"; });
  return *state_->cell;
}

int Grid::coordinate(std::string_view axis) const {
  return shape().coordinates(cell())[static_cast<size_t>(shape().axis_index(axis))];
}

const Communicator& Grid::axis(std::string_view axis) const {
  return group({std::string(axis)});
}

const Communicator& Grid::group(const std::vector<std::string>& axes) const {
  return group_of(shape().ranks_along(shape().rank_of(cell()), axes));
}

Communicator Grid::group_along(const GridShape& shape, const std::vector<std::string>& axes) const {
  const std::vector<int> ranks = shape.ranks_along(world().rank(), axes);
  return ranks.size() == 1 ? Communicator() : group_of(ranks);
}

Grid Grid::at(std::string_view axis, int coordinate) const {
  GridShape part = shape().at(axis, coordinate);
  std::vector<int> workers = part.ranks();
  return {world(), std::move(part), std::move(workers), state_->groups};
}

const Communicator& Grid::group_of(const std::vector<int>& ranks) const {
  Groups& groups = *state_->groups;
  if (const auto found = groups.find(ranks); found != groups.end()) return found->second;
  // The world is already a group, so a grid of one axis makes none.
  return groups.emplace(ranks, ranks == all_ranks(world().size()) ? world() : world().subset(ranks)).first->second;
}

}  // namespace adjoin
