#include "adjoin/partition/layout.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin {

Kind dual(Kind kind) {
  if (kind == Kind::copied) return Kind::partial;
  if (kind == Kind::partial) return Kind::copied;
  return kind;
}

const char* name(Kind kind) {
  switch (kind) {
    case Kind::split:
      return "split";
    case Kind::replicated:
      return "replicated";
    case Kind::copied:
      return "copied";
    case Kind::partial:
      return "partial";
  }
  return "unknown";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  const std::string sizes = joined(shape);
  return "[" + sizes + "]";
}

Layout::Layout(GridShape grid, std::vector<int64_t> shape, std::vector<Cut> cuts, std::map<std::string, Kind> kinds)
    : grid_(std::move(grid)), shape_(std::move(shape)), kinds_(grid_.axes().size(), Kind::replicated) {
  for (const int64_t size : shape_)
    require(size >= 0, [&] { return "layout: expected sizes from 0 on, got " + shape_text(shape_); });
  for (const auto& [axis, kind] : kinds) {
    require(kind != Kind::split, [&] { return "layout: axis '" + axis + "' is split by a cut, not by its kind"; });
    kinds_[static_cast<size_t>(grid_.axis_index(axis))] = kind;
  }
  for (int64_t dim = 0; dim < dims(); ++dim)
    cuts_.push_back({Split::balanced(shape_[static_cast<size_t>(dim)], 1, dim), {}});
  std::set<int64_t> cut_dims;
  for (Cut& cut : cuts) {
    const int64_t dim = cut.split.dim();
    require(dim >= 0 && dim < dims() && cut_dims.insert(dim).second, [&] {
      return "layout: expected each cut on a dim of its own among " + std::to_string(dims()) + ", got dim " +
             std::to_string(dim);
    });
    const int64_t size = shape_[static_cast<size_t>(dim)];
    require(cut.split.size() == size, [&] {
      return "layout: expected dim " + std::to_string(dim) + " to be cut over " + std::to_string(size) +
             " indices, got " + std::to_string(cut.split.size());
    });
    int64_t workers = 1;
    for (const std::string& axis : cut.axes) {
      Kind& kind = kinds_[static_cast<size_t>(grid_.axis_index(axis))];
      require(kind != Kind::split, [&] { return "layout: axis '" + axis + "' is used twice"; });
      require(!kinds.contains(axis), [&] { return "layout: axis '" + axis + "' cuts a dim and is given a kind"; });
      kind = Kind::split;
      workers *= grid_.axis_size(axis);
    }
    require(cut.split.parts() == workers, [&] {
      return "layout: expected " + std::to_string(workers) + " parts on dim " + std::to_string(dim) + ", got " +
             std::to_string(cut.split.parts());
    });
    cuts_[static_cast<size_t>(dim)] = std::move(cut);
  }
}

std::vector<std::string> Layout::axes(Kind kind) const {
  std::vector<std::string> axes;
  for (size_t i = 0; i < kinds_.size(); ++i)
    if (kinds_[i] == kind) axes.push_back(grid_.axes()[i].name);
  return axes;
}

std::map<std::string, Kind> Layout::kinds() const {
  std::map<std::string, Kind> kinds;
  for (size_t i = 0; i < kinds_.size(); ++i)
    if (kinds_[i] != Kind::split) kinds.emplace(grid_.axes()[i].name, kinds_[i]);
  return kinds;
}

bool Layout::is_exact() const {
  for (const Cut& cut : cuts_)
    if (!cut.split.is_exact()) return false;
  return true;
}

Layout Layout::dual() const {
  Layout layout = *this;
  for (Kind& kind : layout.kinds_) kind = adjoin::dual(kind);
  return layout;
}

Layout Layout::with_kind(const std::string& axis, Kind kind) const {
  Layout layout = *this;
  Kind& old = layout.kinds_[static_cast<size_t>(grid_.axis_index(axis))];
  require(old != Kind::split && kind != Kind::split, [&] { return "layout: axis '" + axis + "' cuts a dim"; });
  old = kind;
  return layout;
}

Layout Layout::with_cut(Cut cut) const {
  std::map<std::string, Kind> kinds = this->kinds();
  for (const std::string& axis : cut.axes) kinds.erase(axis);
  std::vector<Cut> cuts{std::move(cut)};
  for (const Cut& other : cuts_)
    if (other.split.dim() != cuts[0].split.dim()) cuts.push_back(other);
  return Layout(grid_, shape_, std::move(cuts), std::move(kinds));
}

Layout Layout::at(const std::string& axis, int coordinate) const {
  const GridShape others = grid_.at(axis, coordinate);
  require(kind(axis) != Kind::split, [&] { return "layout: axis '" + axis + "' cuts a dim"; });
  std::map<std::string, Kind> kinds = this->kinds();
  kinds.erase(axis);
  return Layout(others, shape_, cuts_, std::move(kinds));
}

Layout first_copy(const Layout& layout) {
  Layout result = layout;
  for (const std::string& axis : layout.axes(Kind::copied)) result = result.at(axis, 0);
  return result;
}

Layout Layout::on(const GridShape& grid, Kind elsewhere) const {
  std::map<std::string, Kind> kinds;
  for (const auto& axis : grid.axes()) kinds[axis.name] = elsewhere;
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const auto& [axis, size] = grid_.axes()[i];
    require((size == 1 && kinds_[i] != Kind::split) || grid.axis_size(axis) == size, [&] {
      return "layout: expected axis '" + axis + "' to have " + std::to_string(size) + " workers, got " +
             grid.to_string() + " for " + to_string();
    });
    if (kinds_[i] == Kind::split)
      kinds.erase(axis);
    else if (size > 1)
      kinds[axis] = kinds_[i];
  }
  return Layout(grid, shape_, cuts_, std::move(kinds));
}

Layout stored(const Layout& layout) {
  Layout result = layout;
  for (const std::string& axis : layout.axes(Kind::copied)) result = result.with_kind(axis, Kind::replicated);
  return result;
}

std::vector<int> Layout::parts_of(int cell) const {
  const std::vector<int> coordinates = grid_.coordinates(cell);
  std::vector<int> parts(shape_.size(), 0);
  for (size_t dim = 0; dim < cuts_.size(); ++dim)
    for (const std::string& axis : cuts_[dim].axes)
      parts[dim] = parts[dim] * grid_.axis_size(axis) + coordinates[static_cast<size_t>(grid_.axis_index(axis))];
  return parts;
}

std::vector<int64_t> Layout::shape_of(int cell) const {
  const std::vector<int> parts = parts_of(cell);
  std::vector<int64_t> shape;
  for (size_t dim = 0; dim < cuts_.size(); ++dim) shape.push_back(cuts_[dim].split.size(parts[dim]));
  return shape;
}

std::vector<int64_t> Layout::shape_on(int rank) const {
  const auto cell = grid_.cell_of(rank);
  return cell ? shape_of(*cell) : std::vector<int64_t>{0};
}

std::vector<std::vector<Range>> Layout::ranges_of(int cell) const {
  const std::vector<int> parts = parts_of(cell);
  std::vector<std::vector<Range>> ranges;
  for (size_t dim = 0; dim < cuts_.size(); ++dim) {
    const auto owned = cuts_[dim].split.ranges(parts[dim]);
    ranges.emplace_back(owned.begin(), owned.end());
  }
  return ranges;
}

void Layout::visit_runs(int cell, const std::function<void(int64_t, int64_t, int64_t)>& visit) const {
  const auto ranges = ranges_of(cell);
  size_t last = ranges.size();  // behind the last dim that is not whole: what follows lies together
  int64_t inner = 1, local = 0;
  while (last > 0 && ranges[last - 1] == std::vector<Range>{{0, shape_[last - 1]}}) inner *= shape_[--last];
  const auto emit = [&](int64_t begin, int64_t count) {
    if (count > 0) visit(local, begin * inner, count * inner);
    local += count * inner;
  };
  const auto descend = [&](const auto& self, size_t dim, int64_t before) -> void {
    if (dim == last) return emit(before, 1);
    for (const Range& range : ranges[dim]) {
      if (dim + 1 == last)
        emit(before * shape_[dim] + range.begin, range.size());
      else
        for (int64_t i = range.begin; i < range.end; ++i) self(self, dim + 1, before * shape_[dim] + i);
    }
  };
  if (inner > 0) descend(descend, 0, 0);
}

std::string Layout::to_string() const {
  std::string text;
  for (const Cut& cut : cuts_) {
    if (cut.axes.empty()) continue;
    text += (text.empty() ? "" : "; ") + cut.split.to_string() + " over " + joined(cut.axes);
  }
  for (size_t i = 0; i < kinds_.size(); ++i)
    if (kinds_[i] != Kind::split)
      text += (text.empty() ? "" : "; ") + grid_.axes()[i].name + " " + adjoin::name(kinds_[i]);
  return shape_text(shape_) + " on " + grid_.to_string() + (text.empty() ? "" : ": " + text);
}

std::string Layout::to_json() const {
  nlohmann::ordered_json json{{"shape", shape_}, {"axes", nlohmann::ordered_json::array()}, {"ranks", grid_.ranks()}};
  json["cuts"] = nlohmann::ordered_json::array();
  json["kinds"] = nlohmann::ordered_json::object();
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const auto& [axis, size] = grid_.axes()[i];
    json["axes"].push_back({{"name", axis}, {"size", size}});
    if (kinds_[i] != Kind::split) json["kinds"][axis] = adjoin::name(kinds_[i]);
  }
  for (const Cut& cut : cuts_) {
    if (cut.axes.empty()) continue;
    nlohmann::ordered_json parts = nlohmann::ordered_json::array();
    for (int part = 0; part < cut.split.parts(); ++part) {
      parts.push_back(nlohmann::ordered_json::array());
      for (const Range& range : cut.split.ranges(part)) parts.back().push_back({range.begin, range.end});
    }
    json["cuts"].push_back({{"dim", cut.split.dim()}, {"axes", cut.axes}, {"parts", std::move(parts)}});
  }
  return json.dump();
}

}  // namespace adjoin
