#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adjoin/data/sampler.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/nn/fixed/kept_promises.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/task/task.hpp"

namespace adjoin::train {

/// How a global batch is divided where sums have the same bits in every layout: a rank holds whole lanes of samples, or whole blocks
/// of their tokens, and each of its micro-batches whole leaves. Ranks beyond the lanes hold nothing.
class Lanes {
 public:
  /// `order` has numbers and blocks of tokens.
  Lanes(const FixedOrder& order, const Grid& grid, int microbatches);

  /// The lanes of this rank, and their gradients since the last update.
  HeldLanes held() const { return held_; }
  /// The samples of a micro-batch of a global batch.
  data::BatchPart part(int64_t samples, int number) const;
  /// The order of its sums.
  std::shared_ptr<const FixedOrder> order(int64_t samples, int number, const MicroBatch& batch) const;

 private:
  struct OfLane {
    int64_t lane;
    Range samples;
    int64_t number;  // among all leaves
  };
  std::vector<OfLane> leaves(int64_t samples, int number) const;
  /// Calls `work(block)` for each block of tokens that is here.
  template <class Work>
  void for_each_block(const Work& work) const;
  /// These lanes of samples, of each block here.
  std::vector<Range> in_blocks(Range lanes) const;

  SameBits numbers_;
  TokenBlocks blocks_;
  int cp_;            // this rank along cp
  Range of_samples_;  // the lanes whose samples are here
  HeldLanes held_;
  int microbatches_;
};

/// Compares what came out of each rank's promises (nn::fixed::kept_promises), all of which tried the same.
/// Throws: Error on all ranks: where a kernel does not keep its bits in pieces, or gives others on another rank; with rank and host
void check_kernels(const std::vector<nn::fixed::KeptPromise>& kernels, const Communicator& world);

}  // namespace adjoin::train
