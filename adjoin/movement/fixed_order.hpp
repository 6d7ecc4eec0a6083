#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/local_token_rows.hpp"
#include "adjoin/partition/split.hpp"
#include "adjoin/partition/sum_tree.hpp"

namespace adjoin {

/// A block of the tokens of a range of a lane's samples: its rows in a tensor of all tokens of a micro-batch, and, with the first
/// block, in one of its samples.
struct Leaf {
  int64_t lane = 0;  ///< of SameBits::all_lanes: those of the first block of tokens come first
  Range tokens, samples;
  int64_t number = 0;  ///< among all leaves of the global batch
};

/// What a layer does with a weight. A weight that is used in two ways has a sum for each.
enum class WeightUse : uint8_t { product, look_up };

struct FixedOrder;
/// Adds to a sum what some rows give, one range after another.
using AddToSum = std::function<void(const at::Tensor& sum, std::span<const Range> rows)>;

/// The gradients of weights as backward has added them up so far: for each lane of the global batch a sum of its own.
///
/// A layer adds each leaf's part, in order, to the sum of the leaf's lane (GrowingSums, with a row for each block of tokens).
class LaneGradients : NotCopied {
 public:
  /// `zeros` gives a parameter's sums their memory, in float32.
  explicit LaneGradients(std::function<at::Tensor(const at::Tensor& parameter)> zeros = {})
      : zeros_(std::move(zeros)) {}
  /// Adds the gradient of a micro-batch's leaves: `add_to(sum, rows)` adds those of some leaves of one lane, by their rows in a
  /// tensor with `rows` rows, to a sum in float32 of the parameter's shape.
  /// Throws: InvalidArgument for a parameter that a micro-batch adds to twice, or where micro-batches are not in order
  void add(const FixedOrder& order, const at::Tensor& parameter, WeightUse use, int64_t rows, const AddToSum& add_to);
  /// Calls `work` from now on when the last micro-batch's gradient of a parameter that is used once has been added; null: no more.
  void at_last(const at::Tensor& parameter, std::function<void()> work);
  /// Forgets all gradients, and begins with micro-batch 0 again.
  void begin_step();
  /// Whether a layer has used the parameter so since the object was made.
  bool has(const at::Tensor& parameter, WeightUse use) const;
  /// Whether rows of other ranks' lanes were added too, as they are to an expert's weights.
  bool has_sources(const at::Tensor& parameter) const;
  /// The sum of a node's lanes, which is then forgotten; undefined where nothing was added.
  at::Tensor take(const at::Tensor& parameter, WeightUse use, Range node);
  /// The bytes of all sums.
  int64_t bytes() const;

 private:
  struct Sums {
    std::map<int, int64_t> micro_batches;  // of each source the one that was added last
    std::optional<GrowingSums<at::Tensor>> of_lanes;
  };
  using Key = std::pair<const void*, WeightUse>;
  std::function<at::Tensor(const at::Tensor& parameter)> zeros_;
  std::map<Key, Sums> sums_;
  std::map<const void*, std::function<void()>> at_last_;
};

/// The gradients of lanes, and which ranks have which.
struct HeldLanes {
  struct OfRank {
    std::vector<Range> held;
    std::vector<Range> of_sources;  ///< of which its experts get rows
    int stage = 0;                  ///< ranks of one stage use a weight in the same way
  };
  std::shared_ptr<LaneGradients> gradients;
  SumTree tree;
  std::vector<OfRank> ranks;  ///< of the world

  /// The lanes of which each of some ranks that hold copies of a weight sends gradients. Of ranks of a stage that have equal ones the
  /// first sends them: of a norm each rank of tensor parallelism has all, though it has some rows only.
  std::vector<std::vector<Range>> of_copies(const std::vector<int>& some, bool is_of_experts) const;
};

/// The order of sums that layers keep in a pass, so that their results have the same bits in every layout: what a thread's
/// WithOrder sets, and layers read in forward and save for backward.
struct FixedOrder {
  SameBits numbers;
  int64_t micro_batch = 0;          ///< its number on this rank in this step
  std::vector<Leaf> leaves;         ///< of this micro-batch
  int64_t tokens = 0, samples = 0;  ///< of this micro-batch here: rows of a tensor of all tokens, or of all samples
  int source = -1;                  ///< which of several ranks the rows are from; below 0: this one
  bool is_last = false;             ///< whether no more rows come in this step
  /// fixed::product adds up each element by itself: quicker for a row or two, as of a text that is generated, slower for many. The bits
  /// are others than those of LibTorch's products, and the same in any piece as well.
  bool row_by_row = false;
  TokenBlocks blocks = {};  ///< of each sample, on the ranks along the axis of context parallelism
  /// Where gradients are added up; none where a pass has no backward.
  std::shared_ptr<LaneGradients> gradients = {};

  /// The order that this thread keeps; null where sums may have any.
  static std::shared_ptr<const FixedOrder> current();
  /// The rows of each leaf in a tensor of all tokens or of all samples, which its number of rows tells. Leaves without samples are
  /// left out of the latter.
  /// Throws: InvalidArgument for another number of rows
  std::vector<Range> rows_of(std::span<const Leaf> some, int64_t rows) const;
  /// Calls `work` for each lane of the micro-batch that has some of these rows, in turn: with the row of GrowingSums, and those of its
  /// leaves.
  void for_each_lane(int64_t rows,
                     const std::function<void(int64_t row, int64_t lane, std::span<const Range> rows)>& work) const;
  /// The number of the leaf of each token.
  std::vector<int64_t> leaf_of_tokens() const;
  /// Each leaf in as many ranges as there are parts of features: what is summed over rows that are cut over ranks between layers
  /// is added block by block, and a rank has whole blocks.
  std::vector<Range> blocks_of(std::span<const Range> leaves) const;
};

/// How rows are cut over ranks between layers (Megatron's sequence parallelism): balanced, or in a fixed order between blocks.
Split rows_of_ranks(int64_t rows, int ranks);
/// Those of this rank of a group.
LocalTokenRows rows_of_rank(const LocalTokenRows& rows, const Communicator& group);
/// How samples are shared by the ranks of context parallelism, each of which has parts of all: balanced, or in a fixed order all
/// on the first rank.
Split samples_of_ranks(int64_t samples, int ranks);

/// Sets the order that this thread keeps for as long as it lives.
class WithOrder : NotCopied {
 public:
  explicit WithOrder(std::shared_ptr<const FixedOrder> order);
  ~WithOrder();

 private:
  std::shared_ptr<const FixedOrder> before_;
};

/// For a layer's backward in a fixed order, in place of parameter_gradient: adds the gradient of a parameter to its lanes, now
/// or when a PostponedGradients computes it. Returns an undefined tensor, which adds nothing to `.grad`.
/// Throws: InvalidArgument as LaneGradients::add, and for a parameter that is not a leaf of the graph
at::Tensor add_to_lanes(const std::shared_ptr<const FixedOrder>& order, const at::Tensor& parameter, WeightUse use,
                        int64_t rows, AddToSum add_to);

}  // namespace adjoin
