#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adjoin/data/sampler.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/nn/sequence/kept_promises.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task.hpp"

namespace adjoin::train {

/// How a global batch is divided where sums have the same bits in every layout: a rank holds whole lanes of samples, or whole blocks
/// of their tokens, and each of its micro-batches whole leaves. Ranks beyond the lanes hold nothing.
class Lanes {
 public:
  /// `order` has numbers and blocks of tokens.
  Lanes(std::shared_ptr<const FixedOrder> order, const Grid& grid, int microbatches);

  /// How many lanes of samples this rank has.
  int64_t count() const { return of_samples_.size(); }
  /// The lanes of the ranks, and this one's gradients since the last update.
  const HeldLanes& held() const { return held_; }
  /// The samples of a micro-batch of a global batch.
  data::BatchPart part(int64_t samples, int number) const;
  /// How many sums of a weight's gradient this rank keeps after each micro-batch, or of an expert's.
  std::vector<int64_t> sums_kept(int64_t samples, bool is_of_experts) const;
  /// The order in which no sums are added up yet, and that of a micro-batch.
  const std::shared_ptr<const FixedOrder>& order() const { return order_; }
  std::shared_ptr<const FixedOrder> order(int64_t samples, int number, const MicroBatch& batch) const;

 private:
  /// Of a rank with these lanes of samples: the lane, samples and number of each leaf, among those of the first block of tokens.
  std::vector<Leaf> leaves(int64_t samples, int number, Range lanes) const;
  /// Of these lanes of samples those of each block of such a rank.
  std::vector<Range> in_blocks(Range lanes, int cp) const;

  std::shared_ptr<const FixedOrder> order_;
  std::vector<int64_t> blocks_;    // of tokens, which are here
  Range of_samples_;               // the lanes whose samples are here
  std::vector<Range> of_sources_;  // and those of each rank along the experts' axis
  HeldLanes held_;
  int microbatches_;
};

/// Those of a configuration; none where sums may have any order.
std::optional<Lanes> lanes_of(const Configuration& configuration, const Grid& grid);

/// A micro-batch, and the order of its sums; none where they may have any.
struct OrderedBatch {
  MicroBatch batch;
  std::shared_ptr<const FixedOrder> order = {};
};
/// This rank's micro-batch of a step on these training samples, by its number.
OrderedBatch batch_of_step(const Configuration& configuration, const Task& task, std::span<const int64_t> samples,
                           int number, const Step& step, const at::TensorOptions& tensor, const Grid& grid,
                           const std::optional<Lanes>& lanes);

/// Compares what came out of each rank's promises (nn::fixed::kept_promises), all of which tried the same.
/// Throws: Error on all ranks: where a kernel does not keep its bits in pieces, or gives others on another rank; with rank and host
void check_kernels(const std::vector<nn::fixed::KeptPromise>& kernels, const Communicator& world);

}  // namespace adjoin::train
