#include "adjoin/partition/shard.hpp"

#include <algorithm>
#include <utility>

namespace adjoin {

Split refined(const Split& split, int parts) {
  std::vector<std::vector<Range>> pieces;
  pieces.reserve(static_cast<size_t>(split.parts()) * static_cast<size_t>(parts));
  for (int part = 0; part < split.parts(); ++part) {
    for (int further = 0; further < parts; ++further) {
      const Range wanted = balanced_range(split.size(part), parts, further);
      std::vector<Range>& piece = pieces.emplace_back();
      int64_t before = 0;  // rows of the part that come before the range
      for (const Range& range : split.ranges(part)) {
        const int64_t begin = std::max(wanted.begin, before), end = std::min(wanted.end, before + range.size());
        if (begin < end) piece.push_back({range.begin + begin - before, range.begin + end - before});
        before += range.size();
      }
    }
  }
  return split.is_exact() ? Split::of_ranges(std::move(pieces), split.size(), split.dim())
                          : Split::covering(std::move(pieces), split.size(), split.dim());
}

Layout sharded(const Layout& layout) {
  if (layout.dims() == 0) return first_copy(layout);
  Layout::Cut cut = layout.cuts()[0];
  int parts = 1;
  for (const std::string& axis : layout.axes(Kind::copied)) {
    cut.axes.push_back(axis);
    parts *= layout.grid().axis_size(axis);
  }
  cut.split = refined(cut.split, parts);
  return layout.with_cut(std::move(cut));
}

}  // namespace adjoin
