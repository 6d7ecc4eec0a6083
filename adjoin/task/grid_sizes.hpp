#pragma once

#include <cstdint>
#include <string>

#include "adjoin/partition/grid.hpp"
#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The grid of workers that a configuration gives, by the sizes of its axes.
struct GridSizes {
  int64_t dp = 1;   ///< workers that each take a part of the batch
  int64_t ep = 1;   ///< of these, workers that share the experts
  int64_t pp = 1;   ///< workers that each hold some of the model's segments
  int64_t cp = 1;   ///< workers that each hold a part of every sequence
  int64_t tp = 1;   ///< workers that each hold a part of every layer
  bool sp = false;  ///< ranks along tp also split the rows between those layers

  int64_t ranks() const { return dp * pp * cp * tp; }
  /// {dp, ep, pp, cp, tp}; here dp times ep is the number of workers that take a part of the batch. Ranks along tp are
  /// neighbours.
  GridShape shape() const;
  /// "dp 2, tp 4"; "dp 2 (ep 2)"; pp and cp if above 1, "sp" if rows are split.
  std::string to_string() const;
  /// The beginning of a message: "--dp 2 times --tp 4 needs 8 ranks".
  std::string needs() const;
};

/// The ranks that each take a part of the batch, along dp and ep, in the order of the parts.
const Communicator& batch_ranks(const Grid& grid);

/// `grid_sizes`: the grid of a configuration. `on_grid`: the same configuration with another grid.
GridSizes grid_sizes(const Configuration& configuration);
Configuration on_grid(Configuration configuration, const GridSizes& sizes);
/// The layout in words: the grid, and the stage of ZeRO if it is not 1.
std::string layout_text(const Configuration& configuration);
/// The same configuration; if its dp is 0, dp becomes the number of available ranks divided by the ranks along the other axes.
/// Available are the MPI job's ranks, or this machine's cores. Throws: InvalidArgument where some would be left over
Configuration with_all_ranks(Configuration configuration);
/// Whether attention keeps its scores for backward, so that --recompute attention saves memory.
bool keeps_scores(const Configuration& configuration);
/// A line for each option that has no effect in this configuration.
std::vector<std::string> remarks(const Configuration& configuration);

/// Throws: InvalidArgument for an axis below 1, and for an axis that cannot be above 1 yet
void validate(const GridSizes& sizes);

}  // namespace adjoin::train
