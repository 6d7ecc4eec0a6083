#include "tests/support/layouts.hpp"

#include <algorithm>
#include <numeric>

namespace adjoin::testing {
namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : numbers_(seed) {}

  int64_t number(int64_t least, int64_t most) { return numbers_.from(least, most); }
  bool one_in(int64_t n) { return numbers_.one_in(n); }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<size_t>(number(0, static_cast<int64_t>(i) - 1))]);
  }

  GridShape grid(int workers) {
    std::vector<GridShape::Axis> axes;
    int cells = 1;
    for (const char* name : {"a", "b", "c"}) {
      const int size = static_cast<int>(number(1, workers / cells));
      axes.push_back({name, size});
      cells *= size;
      if (one_in(3)) break;
    }
    std::vector<int> ranks(static_cast<size_t>(workers));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (one_in(2)) shuffle(ranks);
    ranks.resize(static_cast<size_t>(cells));
    return GridShape(std::move(axes), std::move(ranks));
  }

  Split exact(int64_t size, int parts, int64_t dim) {
    const int64_t way = number(0, 3);
    if (way == 0) return Split::balanced(size, parts, dim);
    if (way == 1) return Split::balanced(size, parts, dim, number(1, 3));
    if (way == 2) {
      std::vector<int64_t> starts{0};
      for (int part = 1; part < parts; ++part) starts.push_back(number(0, size));
      std::sort(starts.begin(), starts.end());
      return Split::at(std::move(starts), size, dim);
    }
    std::vector<Range> ranges;
    for (int64_t begin = 0; begin < size;) {
      ranges.push_back({begin, std::min(size, begin + number(1, 3))});
      begin = ranges.back().end;
    }
    shuffle(ranges);
    std::vector<std::vector<Range>> owned(static_cast<size_t>(parts));
    for (const Range& range : ranges) owned[static_cast<size_t>(number(0, parts - 1))].push_back(range);
    return Split::of_ranges(std::move(owned), size, dim);
  }

  Split covering(int64_t size, int parts, int64_t dim) {
    std::vector<std::vector<Range>> wanted(static_cast<size_t>(parts));
    for (auto& ranges : wanted)
      for (int64_t n = number(0, 3); n > 0; --n) {
        const int64_t begin = number(0, size);
        ranges.push_back({begin, number(begin, size)});
      }
    return Split::covering(std::move(wanted), size, dim);
  }

  /// `open`: the kind that only this side of a move may have, beside replicated.
  Layout layout(const GridShape& grid, const std::vector<int64_t>& shape, Kind open, bool is_covering) {
    std::vector<std::string> free;
    for (const auto& axis : grid.axes()) free.push_back(axis.name);
    shuffle(free);
    std::vector<Layout::Cut> cuts;
    for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim) {
      if (free.empty() || one_in(3)) continue;
      std::vector<std::string> axes;
      int parts = 1;
      do {
        axes.push_back(free.back());
        parts *= grid.axis_size(free.back());
        free.pop_back();
      } while (!free.empty() && one_in(3));
      const int64_t size = shape[static_cast<size_t>(dim)];
      cuts.push_back({is_covering && !one_in(3) ? covering(size, parts, dim) : exact(size, parts, dim), axes});
    }
    std::map<std::string, Kind> kinds;
    for (const std::string& axis : free)
      if (one_in(2)) kinds.emplace(axis, open);
    shuffle(cuts);
    return Layout(grid, shape, std::move(cuts), std::move(kinds));
  }

 private:
  Numbers numbers_;
};

}  // namespace

std::pair<Layout, Layout> random_layouts(uint64_t seed, const LayoutLimits& limits) {
  Draw draw(seed);
  std::vector<int64_t> shape(static_cast<size_t>(draw.number(draw.one_in(10) ? 0 : 1, limits.max_dims)));
  for (int64_t& size : shape) size = draw.number(draw.one_in(8) ? 0 : 1, limits.max_size);
  const GridShape a = draw.grid(limits.workers);
  const GridShape b = draw.one_in(2) ? a : draw.grid(limits.workers);
  const int64_t covering = draw.number(0, 3);  // on neither side twice as often
  Layout from = draw.layout(a, shape, Kind::partial, covering == 0);
  Layout to = draw.layout(b, shape, Kind::copied, covering == 1);
  // Some axes that both leave alone stay copied or partial.
  for (const auto& axis : a.axes()) {
    const auto& others = b.axes();
    if (std::find(others.begin(), others.end(), axis) == others.end() || !draw.one_in(3)) continue;
    if (from.kind(axis.name) == Kind::split || to.kind(axis.name) == Kind::split) continue;
    const Kind kind = draw.one_in(2) ? Kind::copied : Kind::partial;
    from = from.with_kind(axis.name, kind);
    to = to.with_kind(axis.name, kind);
  }
  return {from, to};
}

GridShape random_grid(uint64_t seed, int workers) {
  return Draw(seed).grid(workers);
}

Split random_split(uint64_t seed, int64_t size, int parts, int64_t dim) {
  return Draw(seed).exact(size, parts, dim);
}

Layout random_layout(uint64_t seed, const GridShape& grid, const std::vector<int64_t>& shape, Kind other) {
  return Draw(seed).layout(grid, shape, other, /*is_covering=*/false);
}

}  // namespace adjoin::testing
