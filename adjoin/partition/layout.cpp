#include "adjoin/partition/layout.hpp"

#include <set>

#include "adjoin/base/error.hpp"

namespace adjoin {

Kind dual(Kind kind) {
  if (kind == Kind::copied) return Kind::partial;
  if (kind == Kind::partial) return Kind::copied;
  return kind;
}

Layout::Layout(GridShape grid, std::vector<int64_t> shape, std::vector<Cut> cuts, Kind elsewhere)
    : grid_(std::move(grid)), shape_(std::move(shape)), cuts_(std::move(cuts)), elsewhere_(elsewhere) {
  require(elsewhere_ != Kind::split, "layout: expected replicated, copied or partial along the axes that cut nothing");
  std::set<std::string> axes;
  std::set<int64_t> dims;
  for (const Cut& cut : cuts_) {
    const int64_t dim = cut.split.dim();
    require(dim >= 0 && dim < static_cast<int64_t>(shape_.size()) && dims.insert(dim).second, [&] {
      return "layout: expected each cut on a dim of its own among " + std::to_string(shape_.size()) + ", got dim " +
             std::to_string(dim);
    });
    require(cut.split.size() == shape_[static_cast<size_t>(dim)], [&] {
      return "layout: expected dim " + std::to_string(dim) + " to be cut over " +
             std::to_string(shape_[static_cast<size_t>(dim)]) + " indices, got " + std::to_string(cut.split.size());
    });
    int workers = 1;
    for (const std::string& axis : cut.axes) {
      workers *= grid_.axis_size(axis);
      require(axes.insert(axis).second, [&] { return "layout: axis '" + axis + "' is used twice"; });
    }
    require(cut.split.parts() == workers, [&] {
      return "layout: expected " + std::to_string(workers) + " parts on dim " + std::to_string(dim) + ", got " +
             std::to_string(cut.split.parts());
    });
  }
}

const Layout::Cut* Layout::cut_of(int64_t dim) const {
  for (const Cut& cut : cuts_)
    if (cut.split.dim() == dim) return &cut;
  return nullptr;
}

std::vector<int> Layout::parts_of(int cell) const {
  const std::vector<int> coordinates = grid_.coordinates(cell);
  std::vector<int> parts(shape_.size(), 0);
  for (const Cut& cut : cuts_)
    for (const std::string& axis : cut.axes) {
      int& part = parts[static_cast<size_t>(cut.split.dim())];
      part = part * grid_.axis_size(axis) + coordinates[static_cast<size_t>(grid_.axis_index(axis))];
    }
  return parts;
}

std::vector<int64_t> Layout::shape_of(int cell) const {
  const std::vector<int> parts = parts_of(cell);
  std::vector<int64_t> shape = shape_;
  for (const Cut& cut : cuts_) {
    const auto dim = static_cast<size_t>(cut.split.dim());
    shape[dim] = cut.split.size(parts[dim]);
  }
  return shape;
}

std::vector<std::vector<Range>> Layout::ranges_of(int cell) const {
  const std::vector<int> parts = parts_of(cell);
  std::vector<std::vector<Range>> ranges;
  for (size_t dim = 0; dim < shape_.size(); ++dim) {
    const Cut* cut = cut_of(static_cast<int64_t>(dim));
    if (cut == nullptr) {
      ranges.push_back({{0, shape_[dim]}});
      continue;
    }
    const auto owned = cut->split.ranges(parts[dim]);
    ranges.emplace_back(owned.begin(), owned.end());
  }
  return ranges;
}

}  // namespace adjoin
