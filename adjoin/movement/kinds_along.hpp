#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "adjoin/movement/linear_map.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin {

/// What a value may be along an axis: a set of these. Split and partial are one, since both differ between the workers.
using KindSet = uint8_t;
constexpr KindSet kReplicated = 1, kCopied = 2, kDiffers = 4, kAnything = 7;
/// Of a number that all workers have alike, with which everything goes.
constexpr KindSet kConstant = kReplicated | kCopied;
/// Of each axis.
using KindSets = std::vector<KindSet>;

KindSet set_of(Kind kind);

/// Groups of ranks and layouts as a grid sees them from this worker: along its axes of more than one worker.
class KindsAlong {
 public:
  explicit KindsAlong(const Grid& grid);

  const std::vector<std::string>& axes() const { return axes_; }
  /// Which axes ranks of `world` span: they are those at all coordinates of these, and at this worker's of the others; none where
  /// they are no such ranks.
  std::optional<std::vector<bool>> spanned(std::span<const int> ranks, const Communicator& world) const;
  /// The same of a group.
  std::optional<std::vector<bool>> spanned(const Communicator& group) const { return spanned(group.world_ranks()); }
  /// The kinds of a layout whose ranks are those of `world`. Along an axis on which it has one worker only, that one's tensor
  /// differs from the others' empty ones, or is one of copies that the others do not give.
  KindSets of(const Layout& layout, const Communicator& world) const;

 private:
  std::optional<std::vector<bool>> spanned(std::span<const int> ranks) const;  // of the outermost world

  std::vector<int> ranks_of_;  // the outermost world's rank of each cell
  std::vector<std::string> axes_;
  std::vector<int> sizes_;
  std::vector<std::vector<int>> coordinates_;  // along these axes, of each cell
  int cell_;
};

}  // namespace adjoin
