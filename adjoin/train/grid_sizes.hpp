#pragma once

#include <cstdint>
#include <string>

#include "adjoin/partition/grid.hpp"
#include "adjoin/train/configuration.hpp"

namespace adjoin::train {

/// The grid of workers that a configuration asks for, by the sizes of its axes.
struct GridSizes {
  int64_t dp = 1;   ///< workers that each take a part of the batch
  int64_t ep = 1;   ///< of these, those that share the experts
  int64_t pp = 1;   ///< those that each hold some of the model's segments
  int64_t cp = 1;   ///< those that each hold a part of every sequence
  int64_t tp = 1;   ///< those that each hold a part of every layer
  bool sp = false;  ///< whether ranks along tp share the rows between those layers

  int64_t ranks() const { return dp * pp * cp * tp; }
  /// {dp, ep, pp, cp, tp}, where dp and ep together are the workers that take a part of the batch: ranks along tp are next to each
  /// other.
  GridShape shape() const;
  /// "dp 2, tp 4"; "dp 2 (ep 2)"; pp and cp where they are above 1, "sp" where rows are split.
  std::string to_string() const;
  /// "--dp 2 times --tp 4 needs 8 ranks", as messages begin.
  std::string needs() const;
};

/// The ranks that each take a part of the batch, in the order of the parts: those along dp and ep.
const Communicator& batch_ranks(const Grid& grid);

/// The grid of a configuration, and the same configuration with another grid.
GridSizes grid_sizes(const Configuration& configuration);
Configuration on_grid(Configuration configuration, const GridSizes& sizes);
/// The layout in words: the grid, and the stage of ZeRO if not 1.
std::string layout_text(const Configuration& configuration);
/// The same configuration with as many ranks along dp as there are where it asks for 0: the MPI job's ranks, or else this machine's
/// cores, over those along the other axes. Throws: InvalidArgument where some would be left over
Configuration with_all_ranks(Configuration configuration);
/// Whether attention keeps its scores for backward, so that --recompute attention saves something.
bool keeps_scores(const Configuration& configuration);
/// A line about each option that changes nothing there.
std::vector<std::string> remarks(const Configuration& configuration);

/// Throws: InvalidArgument for an axis below 1, and for one that cannot be above 1 yet
void validate(const GridSizes& sizes);

}  // namespace adjoin::train
