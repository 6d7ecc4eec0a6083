#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "adjoin/movement/linear_map.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin {

/// The set of kinds that a value may have along an axis. Split and partial are one kind here, since both differ between
/// workers.
using KindSet = uint8_t;
constexpr KindSet kReplicated = 1, kCopied = 2, kDiffers = 4, kAnything = 7;
/// The set for a number that all workers have alike; it combines with everything.
constexpr KindSet kConstant = kReplicated | kCopied;
/// One set for each axis.
using KindSets = std::vector<KindSet>;

KindSet set_of(Kind kind);

/// Groups of ranks and layouts as seen from this worker of a grid: along the grid's axes with more than one worker.
class KindsAlong {
 public:
  explicit KindsAlong(const Grid& grid);

  const std::vector<std::string>& axes() const { return axes_; }
  /// Which axes the ranks of `world` span: they must be the ranks at all coordinates of these axes, and at this worker's
  /// coordinates on the others. None where they are not.
  std::optional<std::vector<bool>> spanned(std::span<const int> ranks, const Communicator& world) const;
  /// The same for a group.
  std::optional<std::vector<bool>> spanned(const Communicator& group) const { return spanned(group.world_ranks()); }
  /// The kinds of a layout whose ranks are those of `world`. Along an axis that the layout's ranks do not span, the tensor may
  /// differ between workers or be one of several copies.
  KindSets of(const Layout& layout, const Communicator& world) const;

 private:
  std::optional<std::vector<bool>> spanned(std::span<const int> ranks) const;  // of the outermost world

  std::vector<int> ranks_of_;  // the outermost world's rank of each cell
  std::vector<std::string> axes_;
  std::vector<int> sizes_;
  std::vector<std::vector<int>> coordinates_;  // along these axes, for each cell
  int cell_;
};

}  // namespace adjoin
