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
  constexpr const char* kNames[] = {"split", "replicated", "copied", "partial"};
  return kNames[static_cast<size_t>(kind)];
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return std::string("[").append(joined(shape)).append("]");
}

Layout::Layout(GridShape grid, std::vector<int64_t> shape, std::vector<Cut> cuts, std::map<std::string, Kind> kinds)
    : state_(checked({std::move(grid), std::move(shape)}, std::move(cuts), kinds)) {}

Layout::State Layout::checked(State state, std::vector<Cut> cuts, const std::map<std::string, Kind>& kinds) {
  const auto kind_of = [&](const std::string& axis) -> Kind& {
    return state.kinds[static_cast<size_t>(state.grid.axis_index(axis))];
  };
  state.kinds.assign(state.grid.axes().size(), Kind::replicated);
  for (const auto& [axis, kind] : kinds) {
    require(kind != Kind::split,
            [&] { return "layout: axis '" + axis + "' cannot be given the kind split; name it in a cut instead"; });
    kind_of(axis) = kind;
  }
  const auto dims = static_cast<int64_t>(state.shape.size());
  for (int64_t dim = 0; dim < dims; ++dim) {
    const int64_t size = state.shape[static_cast<size_t>(dim)];
    require(size >= 0, [&] { return "layout: expected sizes of at least 0, got " + shape_text(state.shape); });
    state.cuts.push_back({Split::balanced(size, 1, dim), {}});
  }
  std::set<int64_t> cut_dims;
  for (Cut& cut : cuts) {
    const int64_t dim = cut.split.dim();
    require(dim >= 0 && dim < dims && cut_dims.insert(dim).second, [&] {
      return "layout: expected at most one cut for each of the " + std::to_string(dims) + " dims, got a cut of dim " +
             std::to_string(dim);
    });
    const int64_t size = state.shape[static_cast<size_t>(dim)];
    require(cut.split.size() == size, [&] {
      return "layout: expected dim " + std::to_string(dim) + " to be cut over " + std::to_string(size) +
             " indices, got " + std::to_string(cut.split.size());
    });
    int64_t workers = 1;
    for (const std::string& axis : cut.axes) {
      Kind& kind = kind_of(axis);
      require(kind != Kind::split, [&] { return "layout: axis '" + axis + "' is used twice"; });
      require(!kinds.contains(axis), [&] {
        return "layout: axis '" + axis + "' cuts a dim and is also given a kind; expected only one of the two";
      });
      kind = Kind::split;
      workers *= state.grid.axis_size(axis);
    }
    require(cut.split.parts() == workers, [&] {
      return "layout: expected " + std::to_string(workers) + " parts on dim " + std::to_string(dim) + ", got " +
             std::to_string(cut.split.parts());
    });
    state.cuts[static_cast<size_t>(dim)] = std::move(cut);
  }
  return state;
}

std::vector<std::string> Layout::axes(Kind kind) const {
  std::vector<std::string> axes;
  for (size_t i = 0; i < state_->kinds.size(); ++i)
    if (state_->kinds[i] == kind) axes.push_back(grid().axes()[i].name);
  return axes;
}

std::map<std::string, Kind> Layout::kinds() const {
  std::map<std::string, Kind> kinds;
  for (size_t i = 0; i < state_->kinds.size(); ++i)
    if (state_->kinds[i] != Kind::split) kinds.emplace(grid().axes()[i].name, state_->kinds[i]);
  return kinds;
}

bool Layout::is_exact() const {
  return std::ranges::all_of(cuts(), [](const Cut& cut) { return cut.split.is_exact(); });
}

Layout Layout::dual() const {
  State state = *state_;
  for (Kind& kind : state.kinds) kind = adjoin::dual(kind);
  return Layout(std::move(state));
}

Layout Layout::with_kind(const std::string& axis, Kind kind) const {
  State state = *state_;
  Kind& old = state.kinds[static_cast<size_t>(grid().axis_index(axis))];
  require(old != Kind::split && kind != Kind::split,
          [&] { return "layout: with_kind cannot make or change a split, got axis '" + axis + "'"; });
  old = kind;
  return Layout(std::move(state));
}

Layout Layout::with_cut(Cut cut) const {
  std::map<std::string, Kind> kinds = this->kinds();
  for (const std::string& axis : cut.axes) kinds.erase(axis);
  std::vector<Cut> all{std::move(cut)};
  for (const Cut& other : cuts())
    if (other.split.dim() != all[0].split.dim()) all.push_back(other);
  return Layout(grid(), shape(), std::move(all), std::move(kinds));
}

Layout first_copy(const Layout& layout) {
  GridShape grid = layout.grid();
  std::map<std::string, Kind> kinds = layout.kinds();
  for (const std::string& axis : layout.axes(Kind::copied)) {
    grid = grid.at(axis, 0);
    kinds.erase(axis);
  }
  return Layout(std::move(grid), layout.shape(), layout.cuts(), std::move(kinds));
}

Layout Layout::on(const GridShape& other, Kind elsewhere) const {
  std::map<std::string, Kind> kinds;
  for (const auto& axis : other.axes()) kinds[axis.name] = elsewhere;
  for (size_t i = 0; i < state_->kinds.size(); ++i) {
    const auto& [axis, size] = grid().axes()[i];
    require((size == 1 && state_->kinds[i] != Kind::split) || other.axis_size(axis) == size, [&] {
      return "layout: expected axis '" + axis + "' to have " + std::to_string(size) + " workers, got " +
             other.to_string() + " for " + to_string();
    });
    if (state_->kinds[i] == Kind::split)
      kinds.erase(axis);
    else if (size > 1)
      kinds[axis] = state_->kinds[i];
  }
  return Layout(other, shape(), cuts(), std::move(kinds));
}

Layout stored(const Layout& layout) {
  Layout result = layout;
  for (const std::string& axis : layout.axes(Kind::copied)) result = result.with_kind(axis, Kind::replicated);
  return result;
}

std::vector<int> Layout::parts_of(int cell) const {
  const std::vector<int> coordinates = grid().coordinates(cell);
  std::vector<int> parts(shape().size(), 0);
  for (size_t dim = 0; dim < cuts().size(); ++dim)
    for (const std::string& axis : cuts()[dim].axes)
      parts[dim] = parts[dim] * grid().axis_size(axis) + coordinates[static_cast<size_t>(grid().axis_index(axis))];
  return parts;
}

std::vector<int64_t> Layout::shape_of(int cell) const {
  const std::vector<int> parts = parts_of(cell);
  std::vector<int64_t> shape;
  for (size_t dim = 0; dim < cuts().size(); ++dim) shape.push_back(cuts()[dim].split.size(parts[dim]));
  return shape;
}

std::vector<int64_t> Layout::shape_on(int rank) const {
  const auto cell = grid().cell_of(rank);
  return cell ? shape_of(*cell) : std::vector<int64_t>{0};
}

std::vector<std::vector<Range>> Layout::ranges_of(int cell) const {
  const std::vector<int> parts = parts_of(cell);
  std::vector<std::vector<Range>> ranges;
  for (size_t dim = 0; dim < cuts().size(); ++dim) {
    const auto owned = cuts()[dim].split.ranges(parts[dim]);
    ranges.emplace_back(owned.begin(), owned.end());
  }
  return ranges;
}

void Layout::visit_runs(int cell, const std::function<void(int64_t, int64_t, int64_t)>& visit) const {
  const auto ranges = ranges_of(cell);
  size_t last = ranges.size();  // after the last dim that is not whole: what follows is contiguous
  int64_t inner = 1, local = 0;
  while (last > 0 && ranges[last - 1] == std::vector<Range>{{0, shape()[last - 1]}}) inner *= shape()[--last];
  const auto emit = [&](int64_t begin, int64_t count) {
    if (count > 0) visit(local, begin * inner, count * inner);
    local += count * inner;
  };
  const auto descend = [&](const auto& self, size_t dim, int64_t before) -> void {
    if (dim == last) return emit(before, 1);
    for (const Range& range : ranges[dim]) {
      if (dim + 1 == last)
        emit(before * shape()[dim] + range.begin, range.size());
      else
        for (int64_t i = range.begin; i < range.end; ++i) self(self, dim + 1, before * shape()[dim] + i);
    }
  };
  if (inner > 0) descend(descend, 0, 0);
}

std::string Layout::to_string() const {
  std::string text;
  for (const Cut& cut : cuts()) {
    if (cut.axes.empty()) continue;
    text += (text.empty() ? "" : "; ") + cut.split.to_string() + " over " + joined(cut.axes);
  }
  for (size_t i = 0; i < state_->kinds.size(); ++i)
    if (state_->kinds[i] != Kind::split)
      text += (text.empty() ? "" : "; ") + grid().axes()[i].name + " " + adjoin::name(state_->kinds[i]);
  return shape_text(shape()) + " on " + grid().to_string() + (text.empty() ? "" : ": " + text);
}

std::string Layout::to_json() const {
  nlohmann::ordered_json json{{"shape", shape()}, {"axes", nlohmann::ordered_json::array()}, {"ranks", grid().ranks()}};
  json["cuts"] = nlohmann::ordered_json::array();
  json["kinds"] = nlohmann::ordered_json::object();
  for (size_t i = 0; i < state_->kinds.size(); ++i) {
    const auto& [axis, size] = grid().axes()[i];
    json["axes"].push_back({{"name", axis}, {"size", size}});
    if (state_->kinds[i] != Kind::split) json["kinds"][axis] = adjoin::name(state_->kinds[i]);
  }
  for (const Cut& cut : cuts()) {
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
