#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/comm/contract/host_memory.hpp"
#include "adjoin/partition/grid.hpp"

namespace adjoin::train {

struct Configuration;

/// The grid of workers that a configuration gives, by the sizes of its axes.
struct GridSizes {
  int64_t dp = 1;   ///< workers that each take a part of the batch
  int64_t ep = 1;   ///< of these, workers that share the experts
  int64_t pp = 1;   ///< workers that each hold some of the model's segments
  int64_t cp = 1;   ///< workers that each hold a part of every sequence
  int64_t tp = 1;   ///< workers that each hold a part of every layer
  bool sp = false;  ///< ranks along tp also split the rows between those layers

  int64_t ranks() const { return dp * pp * cp * tp; }
  /// {replica, ep, pp, cp, tp}: dp / ep replicas of the model, experts included. Ranks along tp are neighbours.
  GridShape shape() const;
  /// "dp 2, tp 4"; "dp 2 (ep 2)"; pp and cp if above 1, "sp" if rows are split.
  std::string to_string() const;
  /// The beginning of a message: "--dp 2 times --tp 4 needs 8 ranks".
  std::string needs() const;

  bool operator==(const GridSizes&) const = default;
};

/// What ranks are; automatic: processes under mpirun or srun, else threads.
enum class Workers : uint8_t { automatic, threads, mpi };

/// Where ranks run: what every use of a trained model chooses anew.
struct RankOptions : GridSizes {
  int64_t zero = 1;  ///< how much of weights, gradients and moments is divided among equal ranks
  Workers backend = Workers::automatic;
  std::string device = "cpu";                      ///< where ranks compute, as device_of() takes it
  int64_t threads_per_rank = 0;                    ///< 0: this machine's cores divided by the ranks on it
  HostMemory host_memory = HostMemory::automatic;  ///< automatic: as ADJOIN_HOST_MEMORY says
  bool fast = false;                               ///< whether a GPU's kernels need not be exact (use_exact_kernels)

  bool operator==(const RankOptions&) const = default;
};

/// Where workers run, and how they communicate.
struct WorkerOptions : RankOptions {
  bool deterministic = false;  ///< Communicator::deterministic
  bool checked = false;        ///< as in LaunchOptions; also if the environment says so
  double deadline = 0;         ///< seconds, as in LaunchOptions; 0: its default

  bool operator==(const WorkerOptions&) const = default;
};

/// The ranks that each take a part of the batch, along replica and ep, in the order of the parts.
const Communicator& batch_ranks(const Grid& grid);

/// The grid of a configuration.
const GridSizes& grid_sizes(const Configuration& configuration);
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
