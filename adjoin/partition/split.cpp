#include "adjoin/partition/split.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

void check_dim(int64_t dim) {
  require(dim >= 0, [&] { return "split: expected a dim from 0 on, got " + std::to_string(dim); });
}

/// A range with the part that owns it and its place in that part's piece.
struct Owned {
  Range range;
  int part = 0;
  int64_t offset = 0;
};

std::vector<Owned> by_index(const Split& split) {
  std::vector<Owned> owned;
  for (int part = 0; part < split.parts(); ++part) {
    int64_t offset = 0;
    for (const Range& range : split.ranges(part)) {
      if (range.size() > 0) owned.push_back({range, part, offset});
      offset += range.size();
    }
  }
  const auto earlier = [](const Owned& a, const Owned& b) { return a.range.begin < b.range.begin; };
  if (!std::is_sorted(owned.begin(), owned.end(), earlier)) std::sort(owned.begin(), owned.end(), earlier);
  return owned;
}

std::string text(const Range& range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
}

}  // namespace

Split::Split(std::vector<std::vector<Range>> parts, int64_t size, int64_t dim) : size_(size), dim_(dim) {
  check_dim(dim);
  int64_t offset = 0;
  for (const auto& part : parts) {
    first_range_.push_back(ranges_.size());
    offsets_.push_back(offset);
    for (const Range& range : part) {
      in_order_ = in_order_ && (range.size() == 0 || range.begin == offset);
      offset += range.size();
      ranges_.push_back(range);
    }
  }
  first_range_.push_back(ranges_.size());
  offsets_.push_back(offset);
}

Split Split::balanced(int64_t size, int parts, int64_t dim, int64_t unit) {
  require(size >= 0, [&] { return "Split::balanced: expected a size of at least 0, got " + std::to_string(size); });
  require(parts >= 1, [&] { return "Split::balanced: expected at least 1 part, got " + std::to_string(parts); });
  require(unit >= 1, [&] { return "Split::balanced: expected a unit of at least 1, got " + std::to_string(unit); });
  const int64_t units = (size + unit - 1) / unit;
  std::vector<std::vector<Range>> ranges(static_cast<size_t>(parts));
  for (int64_t r = 0; r < parts; ++r) {
    const int64_t begin = r * (units / parts) + std::min(r, units % parts);
    const int64_t end = begin + units / parts + (r < units % parts ? 1 : 0);
    ranges[static_cast<size_t>(r)] = {{std::min(begin * unit, size), std::min(end * unit, size)}};
  }
  return Split(std::move(ranges), size, dim);
}

Split Split::at(std::vector<int64_t> starts, int64_t size, int64_t dim) {
  require(!starts.empty() && starts.front() == 0, "Split::at: expected starts that begin with 0");
  starts.push_back(size);
  std::vector<std::vector<Range>> ranges;
  for (size_t r = 0; r + 1 < starts.size(); ++r) {
    const Range range{starts[r], starts[r + 1]};
    require(range.size() >= 0, [&] {
      return "Split::at: expected starts that never fall and stay within size " + std::to_string(size) + ", part " +
             std::to_string(r) + " would be " + text(range);
    });
    ranges.push_back({range});
  }
  return Split(std::move(ranges), size, dim);
}

Split Split::of_ranges(std::vector<std::vector<Range>> parts, int64_t size, int64_t dim) {
  require(!parts.empty(), "Split::of_ranges: expected at least 1 part, got none");
  Split split(std::move(parts), size, dim);
  int64_t covered = 0;
  for (const Range& range : split.ranges_)
    require(range.size() >= 0, [&] { return "Split::of_ranges: a range ends before it begins: " + text(range); });
  for (const Owned& owned : by_index(split)) {
    require(owned.range.begin == covered, [&] {
      return "Split::of_ranges: expected ranges that cover every index once, index " +
             std::to_string(std::min(owned.range.begin, covered)) +
             (owned.range.begin > covered ? " belongs to no part" : " belongs to two parts");
    });
    covered = owned.range.end;
  }
  require(covered == size, [&] {
    return "Split::of_ranges: expected ranges that cover " + std::to_string(size) + " indices, they end at " +
           std::to_string(covered);
  });
  return split;
}

Split Split::covering(std::vector<std::vector<Range>> parts, int64_t size, int64_t dim) {
  for (const auto& part : parts)
    for (const Range& range : part)
      require(range.begin >= 0 && range.size() >= 0 && range.end <= size, [&] {
        return "Split::covering: expected ranges within [0, " + std::to_string(size) + "), got " + text(range);
      });
  return Split(std::move(parts), size, dim);
}

std::vector<int64_t> Split::sizes() const {
  std::vector<int64_t> sizes;
  for (int part = 0; part < parts(); ++part) sizes.push_back(size(part));
  return sizes;
}

std::span<const Range> Split::ranges(int part) const {
  const size_t first = first_range_[static_cast<size_t>(part)];
  return std::span(ranges_).subspan(first, first_range_[static_cast<size_t>(part) + 1] - first);
}

Split Split::along(int64_t dim) const {
  check_dim(dim);
  Split split = *this;
  split.dim_ = dim;
  return split;
}

std::string Split::to_string() const {
  std::string result = "dim " + std::to_string(dim_) + " of " + std::to_string(size_) + " as";
  for (int part = 0; part < parts(); ++part) result += (part ? ", " : " ") + std::to_string(size(part));
  return result;
}

std::vector<Overlap> overlaps(const Split& from, const Split& to) {
  require(from.size() == to.size(), [&] {
    return "overlaps: expected splits of the same size, got " + std::to_string(from.size()) + " and " +
           std::to_string(to.size());
  });
  const std::vector<Owned> a = by_index(from), b = by_index(to);
  std::vector<Overlap> result;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Range common{std::max(a[i].range.begin, b[j].range.begin), std::min(a[i].range.end, b[j].range.end)};
    result.push_back({a[i].part, b[j].part, common, a[i].offset + common.begin - a[i].range.begin,
                      b[j].offset + common.begin - b[j].range.begin});
    const bool a_ends = a[i].range.end == common.end, b_ends = b[j].range.end == common.end;
    i += a_ends;
    j += b_ends;
  }
  return result;
}

}  // namespace adjoin
