#include "adjoin/movement/kinds_along.hpp"

#include <algorithm>

namespace adjoin {
namespace {

std::vector<int> in_outer_world(std::span<const int> ranks, const Communicator& world) {
  std::vector<int> result;
  for (const int rank : ranks) result.push_back(world.world_ranks()[static_cast<size_t>(rank)]);
  return result;
}

}  // namespace

KindSet set_of(Kind kind) {
  return kind == Kind::replicated ? kReplicated : kind == Kind::copied ? kCopied : kDiffers;
}

KindsAlong::KindsAlong(const Grid& grid)
    : ranks_of_(in_outer_world(grid.shape().ranks(), grid.world())), cell_(grid.cell()) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < grid.shape().axes().size(); ++i) {
    const GridShape::Axis& axis = grid.shape().axes()[i];
    if (axis.size == 1) continue;
    kept.push_back(i);
    axes_.push_back(axis.name);
    sizes_.push_back(axis.size);
  }
  for (int cell = 0; cell < grid.shape().cells(); ++cell) {
    std::vector<int>& along = coordinates_.emplace_back();
    for (const size_t i : kept) along.push_back(grid.shape().coordinates(cell)[i]);
  }
}

std::optional<std::vector<bool>> KindsAlong::spanned(std::span<const int> ranks, const Communicator& world) const {
  return spanned(in_outer_world(ranks, world));
}

std::optional<std::vector<bool>> KindsAlong::spanned(std::span<const int> ranks) const {
  std::vector<bool> spans(axes_.size(), false);
  const std::vector<int>& mine = coordinates_[static_cast<size_t>(cell_)];
  for (const int rank : ranks) {
    const auto found = std::ranges::find(ranks_of_, rank);
    if (found == ranks_of_.end()) return std::nullopt;
    const std::vector<int>& other = coordinates_[static_cast<size_t>(found - ranks_of_.begin())];
    for (size_t axis = 0; axis < axes_.size(); ++axis)
      if (other[axis] != mine[axis]) spans[axis] = true;
  }
  size_t cells = 1;
  for (size_t axis = 0; axis < axes_.size(); ++axis)
    if (spans[axis]) cells *= static_cast<size_t>(sizes_[axis]);
  if (cells != ranks.size() || std::ranges::find(ranks, ranks_of_[static_cast<size_t>(cell_)]) == ranks.end())
    return std::nullopt;
  return spans;
}

KindSets KindsAlong::of(const Layout& layout, const Communicator& world) const {
  const std::optional<int> here = layout.grid().cell_of(world.rank());
  if (!here) return KindSets(axes_.size(), kAnything);
  KindSets kinds(axes_.size(), kCopied | kDiffers);
  for (const GridShape::Axis& axis : layout.grid().axes()) {
    if (axis.size == 1) continue;
    const auto spans = spanned(layout.grid().ranks_along(world.rank(), {axis.name}), world);
    if (!spans) return KindSets(axes_.size(), kAnything);
    for (size_t i = 0; i < axes_.size(); ++i)
      if ((*spans)[i]) kinds[i] = set_of(layout.kind(axis.name));
  }
  return kinds;
}

}  // namespace adjoin
