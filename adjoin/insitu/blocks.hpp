#pragma once

#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::insitu {

/// In which order a solver names the dims of space. Tensors have their rows first; a solver whose first dim is contiguous in memory, as
/// Fortran's, names the same dims in reverse.
enum class DimOrder : uint8_t { rows_first, columns_first };

/// The cells of a global domain that each rank of a world has, as the solver has cut it: each rank gives the start and the sizes of its
/// own block, and nothing else. The blocks form a Cartesian arrangement, uneven or not, with the ranks in any order; a rank may have no
/// cells. All is in the order of `order`. In an ensemble each rank also gives its member, from 0: all members have the same blocks, and
/// their samples are parts of one batch.
class Blocks {
 public:
  /// Called by all ranks. Cost: one all-gather
  /// Throws: InvalidArgument on all ranks alike, for shapes that differ, blocks that leave the domain, overlap, leave cells out, or form
  ///         no Cartesian arrangement; names the first rank whose block does not fit
  Blocks(const Communicator& world, DimOrder order, std::vector<int64_t> shape, std::vector<int64_t> starts,
         std::vector<int64_t> sizes, int member = 0);
  /// Points of an unstructured mesh, or columns, of which this rank has so many. They have no neighbours. Called by all ranks.
  /// Throws: InvalidArgument on all ranks alike for a negative number, or no points at all
  static Blocks of_points(const Communicator& world, int64_t points);

  const Grid& grid() const { return *grid_; }
  DimOrder order() const { return order_; }
  /// Of the domain, rows first.
  const std::vector<int64_t>& shape() const { return shape_; }
  size_t dims() const { return shape_.size(); }
  bool are_points() const { return are_points_; }
  int members() const { return members_; }
  /// The layout of a tensor [batch, *, *space]: space is cut as the blocks are, at starts that are scaled to its size, and the batch over
  /// the members.
  nn::LayoutRule rule() const;

 private:
  DimOrder order_;
  bool are_points_ = false;
  int members_ = 1;
  std::vector<int64_t> shape_;
  std::vector<std::vector<int64_t>> starts_;  // of the parts of each dim
  std::optional<Grid> grid_;
};

}  // namespace adjoin::insitu
