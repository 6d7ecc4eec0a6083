#include "adjoin/partition/split.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"

namespace adjoin {
namespace {

void check_dim(int64_t dim) {
  require(dim >= 0, [&] { return "split: expected a dim of at least 0, got " + std::to_string(dim); });
}

}  // namespace

std::string Range::to_string() const {
  return std::string("[").append(std::to_string(begin)).append(", ").append(std::to_string(end)) + ")";
}

Range balanced_range(int64_t size, int parts, int part) {
  const int64_t least = size / parts, larger = size % parts;
  const int64_t begin = part * least + std::min<int64_t>(part, larger);
  return {begin, begin + least + (part < larger ? 1 : 0)};
}

Split::Split(const std::vector<std::vector<Range>>& parts, int64_t size, int64_t dim)
    : dim_(dim), ranges_(indexed(parts, size)) {
  check_dim(dim);
}

Split::Ranges Split::indexed(const std::vector<std::vector<Range>>& parts, int64_t size) {
  Ranges ranges;
  ranges.size = size;
  int64_t before = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    ranges.first.push_back(ranges.all.size());
    ranges.offsets.push_back(before);
    for (const Range& range : parts[part]) {
      ranges.in_order = ranges.in_order && (range.size() == 0 || range.begin == before);
      if (range.size() > 0)
        ranges.by_index.push_back({range, static_cast<int>(part), before - ranges.offsets.back(), 0});
      before += range.size();
      ranges.all.push_back(range);
    }
  }
  ranges.first.push_back(ranges.all.size());
  ranges.offsets.push_back(before);
  const auto earlier = [](const Ranges::Indexed& a, const Ranges::Indexed& b) { return a.range.begin < b.range.begin; };
  if (!std::is_sorted(ranges.by_index.begin(), ranges.by_index.end(), earlier))
    std::stable_sort(ranges.by_index.begin(), ranges.by_index.end(), earlier);
  int64_t furthest = 0;
  for (Ranges::Indexed& indexed : ranges.by_index) {
    ranges.is_exact = ranges.is_exact && indexed.range.begin == furthest;
    indexed.furthest = furthest = std::max(furthest, indexed.range.end);
  }
  ranges.is_exact = ranges.is_exact && furthest == size;
  ranges.in_order = ranges.in_order && ranges.is_exact;
  return ranges;
}

Split Split::balanced(int64_t size, int parts, int64_t dim, int64_t unit) {
  require(size >= 0, [&] { return "Split::balanced: expected a size of at least 0, got " + std::to_string(size); });
  require(parts >= 1, [&] { return "Split::balanced: expected at least 1 part, got " + std::to_string(parts); });
  require(unit >= 1, [&] { return "Split::balanced: expected a unit of at least 1, got " + std::to_string(unit); });
  const int64_t units = (size + unit - 1) / unit;
  std::vector<std::vector<Range>> ranges(static_cast<size_t>(parts));
  for (int r = 0; r < parts; ++r) {
    const Range of_units = balanced_range(units, parts, r);
    ranges[static_cast<size_t>(r)] = {{std::min(of_units.begin * unit, size), std::min(of_units.end * unit, size)}};
  }
  return Split(ranges, size, dim);
}

Split Split::at(std::vector<int64_t> starts, int64_t size, int64_t dim) {
  require(!starts.empty() && starts.front() == 0, "Split::at: expected starts that begin with 0");
  starts.push_back(size);
  std::vector<std::vector<Range>> ranges;
  for (size_t r = 0; r + 1 < starts.size(); ++r) {
    const Range range{starts[r], starts[r + 1]};
    require(range.size() >= 0, [&] {
      return "Split::at: expected starts that never decrease and are at most " + std::to_string(size) + ", but part " +
             std::to_string(r) + " would be " + range.to_string();
    });
    ranges.push_back({range});
  }
  return Split(ranges, size, dim);
}

Split Split::of_ranges(std::vector<std::vector<Range>> parts, int64_t size, int64_t dim) {
  require(!parts.empty(), "Split::of_ranges: expected at least 1 part, got none");
  Split split(parts, size, dim);
  for (const Range& range : split.ranges_->all)
    require(range.size() >= 0 && range.begin >= 0, [&] {
      return "Split::of_ranges: expected ranges that begin at 0 or later and do not end before they begin, got " +
             range.to_string();
    });
  int64_t covered = 0;
  for (const auto& [range, part, offset, furthest] : split.ranges_->by_index) {
    require(range.begin == covered, [&] {
      return "Split::of_ranges: expected ranges that cover every index once, but index " +
             std::to_string(std::min(range.begin, covered)) +
             (range.begin > covered ? " belongs to no part" : " belongs to two parts");
    });
    covered = range.end;
  }
  require(covered == size, [&] {
    return "Split::of_ranges: expected ranges that cover " + std::to_string(size) +
           " indices, got ranges that end at " + std::to_string(covered);
  });
  return split;
}

Split Split::covering(std::vector<std::vector<Range>> parts, int64_t size, int64_t dim) {
  require(!parts.empty(), "Split::covering: expected at least 1 part, got none");
  for (const auto& part : parts)
    for (const Range& range : part)
      require(range.size() >= 0 && range.begin >= 0 && range.end <= size, [&] {
        return "Split::covering: expected ranges within " + Range{0, size}.to_string() + ", got " + range.to_string();
      });
  return Split(parts, size, dim);
}

std::vector<int64_t> Split::sizes() const {
  std::vector<int64_t> sizes;
  for (int part = 0; part < parts(); ++part) sizes.push_back(size(part));
  return sizes;
}

std::span<const Range> Split::ranges(int part) const {
  const size_t first = ranges_->first[static_cast<size_t>(part)];
  return std::span(ranges_->all).subspan(first, ranges_->first[static_cast<size_t>(part) + 1] - first);
}

Split Split::along(int64_t dim) const {
  check_dim(dim);
  Split split = *this;
  split.dim_ = dim;
  return split;
}

std::string Split::to_string() const {
  std::string result = "dim " + std::to_string(dim_) + " of " + std::to_string(size()) + " as";
  for (int part = 0; part < parts(); ++part) result += (part ? ", " : " ") + std::to_string(size(part));
  if (ranges_->in_order) return result;
  constexpr size_t kMostSaid = 8;
  result += ", from";
  for (size_t i = 0; i < std::min(kMostSaid, ranges_->all.size()); ++i)
    result.append(" ").append(ranges_->all[i].to_string());
  if (ranges_->all.size() <= kMostSaid) return result;
  std::vector<int64_t> ends;
  for (const Range& range : ranges_->all) ends.insert(ends.end(), {range.begin, range.end});
  return result + " … #" + std::to_string(hash_of<int64_t>(ends) % 1'000'000);  // distinguishes texts by the rest
}

void Split::visit_overlaps(Range range, const std::function<void(int, Range, int64_t)>& visit) const {
  const auto& all = ranges_->by_index;
  if (range.size() <= 0) return;
  auto at = std::upper_bound(all.begin(), all.end(), range.begin,
                             [](int64_t begin, const Ranges::Indexed& indexed) { return begin < indexed.furthest; });
  for (; at != all.end() && at->range.begin < range.end; ++at) {
    const Range common{std::max(at->range.begin, range.begin), std::min(at->range.end, range.end)};
    if (common.size() > 0) visit(at->part, common, at->offset + common.begin - at->range.begin);
  }
}

std::vector<Overlap> overlaps(const Split& from, int part, const Split& to) {
  require(from.size() == to.size(), [&] {
    return "overlaps: expected splits of the same size, got " + std::to_string(from.size()) + " and " +
           std::to_string(to.size());
  });
  std::vector<Overlap> result;
  int64_t begin = 0;
  for (const Range& range : from.ranges(part)) {
    to.visit_overlaps(range, [&](int other, Range common, int64_t offset) {
      result.push_back({part, other, common, begin + common.begin - range.begin, offset});
    });
    begin += range.size();
  }
  return result;
}

std::vector<Overlap> overlaps(const Split& from, const Split& to) {
  std::vector<Overlap> result;
  for (int part = 0; part < from.parts(); ++part) {
    const std::vector<Overlap> found = overlaps(from, part, to);
    result.insert(result.end(), found.begin(), found.end());
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Overlap& a, const Overlap& b) { return a.range.begin < b.range.begin; });
  return result;
}

}  // namespace adjoin
