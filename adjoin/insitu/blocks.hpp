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
/// cells. All is in the order of `order`.
class Blocks {
 public:
  /// Called by all ranks. Cost: one all-gather
  /// Throws: InvalidArgument on all ranks alike, for shapes that differ, blocks that leave the domain, overlap, leave cells out, or form
  ///         no Cartesian arrangement; names the first rank whose block does not fit
  Blocks(const Communicator& world, DimOrder order, std::vector<int64_t> shape, std::vector<int64_t> starts,
         std::vector<int64_t> sizes);

  const Grid& grid() const { return *grid_; }
  DimOrder order() const { return order_; }
  /// Of the domain, rows first.
  const std::vector<int64_t>& shape() const { return shape_; }
  size_t dims() const { return shape_.size(); }
  /// The layout of a tensor [*, *space]: space is cut as the blocks are, at starts that are scaled to its size.
  nn::LayoutRule rule() const;

 private:
  struct Block {
    int rank = 0;
    std::vector<int64_t> starts, ends;
    std::string to_string() const;
  };
  std::vector<Block> blocks_of_all(const Communicator& world, const std::vector<int64_t>& starts,
                                   const std::vector<int64_t>& sizes) const;
  /// Why the blocks are no Cartesian arrangement: `misfit` is the first that does not fit.
  [[noreturn]] void refuse(const std::vector<Block>& blocks, const Block& misfit) const;

  DimOrder order_;
  std::vector<int64_t> shape_;
  std::vector<std::vector<int64_t>> starts_;  // of the parts of each dim
  std::optional<Grid> grid_;
};

}  // namespace adjoin::insitu
