#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace adjoin {

/// Indices [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// How one dim of a tensor is cut among the workers of a group: every index belongs to exactly one part.
///
/// A part is a list of index ranges, in the order in which its piece stores them; it may be empty. Dims count from 0; all
/// that takes one throws InvalidArgument for a negative one.
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

  /// Like of_ranges, but parts may overlap, repeat indices and leave holes: what each part is to hold after a move.
  /// Throws: InvalidArgument for a range outside [0, size).
  static Split covering(std::vector<std::vector<Range>> parts, int64_t size, int64_t dim);

  int64_t dim() const { return dim_; }
  int parts() const { return static_cast<int>(first_range_.size()) - 1; }
  /// Indices in all.
  int64_t size() const { return size_; }
  /// Indices of one part.
  int64_t size(int part) const { return offsets_[static_cast<size_t>(part) + 1] - offsets_[static_cast<size_t>(part)]; }
  std::vector<int64_t> sizes() const;
  /// Where the part's block begins when all pieces are laid one behind another in order of the parts.
  int64_t offset(int part) const { return offsets_[static_cast<size_t>(part)]; }
  std::span<const Range> ranges(int part) const;
  /// Whether pieces laid one behind another give the whole: each part is one range and the parts are in order.
  bool in_order() const { return in_order_; }
  /// The same cut on another dim.
  Split along(int64_t dim) const;

  bool operator==(const Split&) const = default;
  std::string to_string() const;

 private:
  Split(std::vector<std::vector<Range>> parts, int64_t size, int64_t dim);

  int64_t size_ = 0, dim_ = 0;
  bool in_order_ = true;
  std::vector<Range> ranges_;
  std::vector<size_t> first_range_;  // of each part, and the number of ranges
  std::vector<int64_t> offsets_;     // indices before each part, and the size
};

/// Indices that part `from` of one split and part `to` of another have in common.
struct Overlap {
  int from = 0, to = 0;
  Range range;                             // global indices
  int64_t from_offset = 0, to_offset = 0;  // where the range begins within each part's piece
  bool operator==(const Overlap&) const = default;
};

/// All overlaps of two splits of the same indices, by global index.
/// Cost: the number of ranges (sorted) and of overlaps; pairs that share nothing are never looked at.
/// Throws: InvalidArgument where the sizes differ.
std::vector<Overlap> overlaps(const Split& from, const Split& to);

}  // namespace adjoin
