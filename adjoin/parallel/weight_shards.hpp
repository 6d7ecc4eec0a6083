#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/bucket_sum.hpp"

namespace adjoin::parallel {

/// What a worker has of weights of which others hold copies.
enum class Kept : uint8_t {
  shards,            ///< its shard, and the whole tensor while it computes with it
  shards_of_tables,  ///< its shard of a table that is only looked up: never more than the rows that it reads
  tables             ///< all of such a table; of its gradient rows move
};
/// A parameter as WeightShards has it; a shard has no values.
nn::Parameter kept_of(nn::Parameter whole, Kept kept);

/// The weights of a module. Each worker that holds copies keeps only its shard of them (adjoin::sharded), and has the whole
/// tensors while it computes with them (ZeRO stage 3).
///
/// The module's parameters keep their sizes, and have memory between `gather` and `release`. A hook sums what backward adds to
/// one of them over its copies at once, and the worker keeps its shard of the sum. Buffers, and parameters without copies on
/// other workers, are left unchanged.
/// Cost:   `gather` is an all-gather of each weight, a backward a reduce-scatter; in memory 1/P of the weights and of their
///         gradients, and what is gathered
/// Source: Rajbhandari et al., "ZeRO", arXiv 1910.02054
class WeightShards {
 public:
  /// Called by all workers of the parameters' grids. Values that a module initialised itself are replaced by those of the first
  /// worker. Tables are matrices in which at::embedding looks rows up, and which nothing else reads.
  /// Throws: InvalidArgument for a parameter whose gradients another optimizer sums within backward
  explicit WeightShards(std::vector<nn::Parameter> whole, Kept kept = Kept::shards);
  ~WeightShards();

  /// Shards in place of the parameters that have copies, in the order of the parameters: an optimizer updates them, and a
  /// checkpoint stores them.
  const std::vector<nn::Parameter>& parameters() const { return parameters_; }

  /// The type in which `gather` sends what only products read (nn::Parameter) to other hosts: none is the weights' own.
  using Sent = std::optional<at::ScalarType>;

  /// Makes the whole tensors available, unless they are; called by all workers that hold copies. What was sent in another type has the
  /// values of that type.
  void gather(Sent sent = {});
  /// Begins that where workers with copies are on several hosts, unless it is done or begun; `gather` then waits.
  void begin_gather(Sent sent);
  /// The number of calls that `gather` makes.
  size_t gathers() const { return weights_.size(); }
  /// The bytes that `begin_gather` allocates.
  int64_t bytes_ahead(Sent sent) const;
  /// Frees the memory of the whole tensors; what autograd keeps of them is valid again after the next `gather`.
  void release();

  /// Whether a tensor is one of the whole tensors, or a view of one.
  bool holds(const at::Tensor& tensor) const;

  /// From now on layers add gradients to lanes (FixedOrder), which the last micro-batch's backward sums, or take_gradients where the
  /// module runs several times in a forward.
  void sum_lanes(const HeldLanes& lanes, bool runs_once);
  /// A collective, for tables and lanes: adds the sums that backward has left to `.grad` of the shards; where it has left none, `.grad` does
  /// not change.
  void take_gradients();
  /// The bytes of these sums.
  int64_t gradient_bytes() const;
  /// From now on nothing is summed: what backward adds stays in `.grad` of the whole tensors. For measurements of one part of a
  /// backward, where another part sums.
  void leave_gradients();

 private:
  struct Weight {
    nn::Parameter uncut;
    at::Tensor shard;
    Bucket bucket;
    std::unique_ptr<BucketSum> gradient = {};  // none where the weight is not trained
    std::unique_ptr<Pending> is_gathered_by{};
    at::Tensor mine{}, all{};  // what is sent, and where it arrives, until it has
    bool narrows(Sent sent) const;
    void pack(Sent sent);
    void unpack();
  };
  void give_all_memory();

  class Table;

  std::vector<nn::Parameter> parameters_;
  std::vector<nn::Parameter> only_tables_;  // without copies
  std::vector<Weight> weights_;
  std::vector<std::unique_ptr<Table>> tables_;
  enum class Now : uint8_t { cut, begun, whole } now_ = Now::cut;
};

/// The place of a segment in a stage of a pipeline.
struct PlaceInStage {
  bool is_first = true, is_last = true;
  bool backward_follows = false;  ///< its own backward runs next, so its weights stay gathered
};

/// Segments that run one after another, forward and backward; only one at a time has its whole weights, and where workers with
/// copies are on several hosts also the one that its stage runs next, whose weights are fetched meanwhile.
class ShardedSegments {
 public:
  /// Adds the next segment, which may have no weights. Several segments may share weights.
  void add(std::vector<std::shared_ptr<WeightShards>> weights) { segments_.push_back(std::move(weights)); }

  /// Returns `forward(x)`, with the weights of a segment gathered for it, and again before its backward. Called by all ranks, whose
  /// backward must go through the same segments. This object must outlive that backward.
  at::Tensor run(size_t segment, const at::Tensor& x, const std::function<at::Tensor(const at::Tensor&)>& forward,
                 PlaceInStage place = {}) const;
  /// Frees the memory of weights that are still gathered, as those of the last segment are after a backward.
  void release() const;

 private:
  std::vector<std::vector<std::shared_ptr<WeightShards>>> segments_;
};

}  // namespace adjoin::parallel
