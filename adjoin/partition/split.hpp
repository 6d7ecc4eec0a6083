#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "adjoin/base/shared.hpp"

namespace adjoin {

/// Indices [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  auto operator<=>(const Range&) const = default;
  /// "[2, 5)"
  std::string to_string() const;
};

/// The range of one of `parts` contiguous parts whose sizes differ by at most one, the larger ones first.
Range balanced_range(int64_t size, int parts, int part);

/// Indices that part `from` of one split and part `to` of another have in common.
struct Overlap {
  int from = 0, to = 0;
  Range range;                             // global indices
  int64_t from_offset = 0, to_offset = 0;  // where the range begins in each part's piece
  bool operator==(const Overlap&) const = default;
};

/// How one dim of a tensor is cut among the workers of a group.
///
/// A part is a list of index ranges, in the order in which its piece stores them; it may be empty. An exact split has every
/// index in exactly one part. In a covering split, parts may overlap, repeat indices or omit some: ghost cells, windows. Dims
/// count from 0; every function that takes a dim throws InvalidArgument for a negative one. Copies share their ranges.
class Split {
 public:
  /// Contiguous parts whose sizes differ by at most one unit, the larger ones first; a last unit may be incomplete.
  /// 5 heads of 12 over 3 parts: balanced(60, 3, dim, 12) gives 24, 24, 12.
  /// Throws: InvalidArgument for a negative size, no parts, or a unit below 1.
  static Split balanced(int64_t size, int parts, int64_t dim, int64_t unit = 1);

  /// Contiguous parts: part r holds [starts[r], starts[r + 1]), the last one up to `size`.
  /// Throws: InvalidArgument unless starts begin with 0, never fall and stay within size.
  static Split at(std::vector<int64_t> starts, int64_t size, int64_t dim);

  /// Part r holds the ranges of parts[r], in that order.
  /// Throws: InvalidArgument unless the ranges of all parts cover [0, size) exactly once.
  static Split of_ranges(std::vector<std::vector<Range>> parts, int64_t size, int64_t dim);

  /// Part r holds the ranges of parts[r], in that order. They may be any ranges, so an element may be in several parts or in
  /// none. Such a split describes what a tensor is moved to, not how it is owned.
  /// Throws: InvalidArgument for no parts, or a range that does not lie within [0, size).
  static Split covering(std::vector<std::vector<Range>> parts, int64_t size, int64_t dim);

  int64_t dim() const { return dim_; }
  int parts() const { return static_cast<int>(ranges_->first.size()) - 1; }
  /// The number of indices in total.
  int64_t size() const { return ranges_->size; }
  /// The number of indices in one part.
  int64_t size(int part) const { return offset(part + 1) - offset(part); }
  std::vector<int64_t> sizes() const;
  /// Where the part's block begins when all pieces follow one another in the order of the parts.
  int64_t offset(int part) const { return ranges_->offsets[static_cast<size_t>(part)]; }
  std::span<const Range> ranges(int part) const;
  /// Whether every index is in exactly one part.
  bool is_exact() const { return ranges_->is_exact; }
  /// Whether the pieces one after another give the whole: each part is one range and the parts are in order.
  bool in_order() const { return ranges_->in_order; }
  /// The same cut on another dim.
  Split along(int64_t dim) const;

  bool operator==(const Split&) const = default;
  /// "dim 0 of 10 as 4, 3, 3"
  std::string to_string() const;

  /// Calls `visit(part, common, offset)` for what each part has in common with a range of indices; `offset` is where that
  /// begins in the part's piece. The order is that of the beginnings of the parts' ranges.
  /// Cost: the logarithm of the number of ranges, and what is found (in a covering split also ranges that are inside longer
  /// ones to their left)
  void visit_overlaps(Range range, const std::function<void(int part, Range common, int64_t offset)>& visit) const;

 private:
  struct Ranges {
    struct Indexed {
      Range range;
      int part = 0;
      int64_t offset = 0;    // of the range in its part's piece
      int64_t furthest = 0;  // the largest end of this range and those before it
      bool operator==(const Indexed&) const = default;
    };
    int64_t size = 0;
    bool is_exact = true, in_order = true;
    std::vector<Range> all;
    std::vector<size_t> first;      // index of each part's first range, and the number of ranges
    std::vector<int64_t> offsets;   // number of indices before each part, and in all parts
    std::vector<Indexed> by_index;  // the ranges that are not empty, sorted by their beginnings
    bool operator==(const Ranges&) const = default;
  };
  Split(const std::vector<std::vector<Range>>& parts, int64_t size, int64_t dim);
  static Ranges indexed(const std::vector<std::vector<Range>>& parts, int64_t size);

  int64_t dim_ = 0;
  Shared<Ranges> ranges_;
};

/// All overlaps of two splits of the same indices, by global index. An index that several parts of a covering split contain is
/// listed for each of them.
/// Cost:   as visit_overlaps for each range of the split that has fewer; pairs without common indices cost nothing
/// Throws: InvalidArgument where the sizes differ.
std::vector<Overlap> overlaps(const Split& from, const Split& to);

/// The same for one part of `from` alone.
std::vector<Overlap> overlaps(const Split& from, int part, const Split& to);

}  // namespace adjoin
