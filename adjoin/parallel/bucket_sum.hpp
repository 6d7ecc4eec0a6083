#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/gradient_hook.hpp"

namespace adjoin::parallel {

/// Sums the gradients of a bucket's parameters over the workers that hold copies of them. A worker gets its shards of the sum
/// (adjoin::sharded); of a bucket that is not cut, all of it.
///
/// Unless it sums when asked only, all these workers must run backward through the parameters equally often, and in the same order
/// relative to those of other sums. Gradients that a PostponedGradients postpones are summed later.
/// Cost: a reduce-scatter, or an all-reduce, each time
class BucketSum : NotCopied {
 public:
  enum class When : uint8_t {
    asked,      ///< in `take`
    last_time,  ///< when backward has added to each gradient as often as in the step before: beside the rest of backward
    /// Each time that backward has added to the gradient, in a bucket of one parameter. The worker keeps its shards of the sum in place of `.grad` (ZeRO stage 2);
    /// between hosts sums run on beside backward, at most four at a time, as each keeps whole gradients.
    each_time
  };
  /// `whole` are the module's parameters; the bucket was made from their reals (reals_of).
  /// Throws: InvalidArgument for a parameter whose gradients another object sums within backward
  /// `lanes`: where the gradients are, whose sum then has the same bits in every layout; asked, or each_time of parameters that are
  /// used once. Of parameters without copies also `.grad`.
  BucketSum(const std::vector<nn::Parameter>& whole, Bucket bucket, When when, std::optional<HeldLanes> lanes = {});
  ~BucketSum();

  const Bucket& bucket() const { return bucket_; }
  /// Whether each_time saves memory: the parameter has copies on other workers, and more than one dim, as others are small.
  static bool fits_each_time(const nn::Parameter& parameter);

  /// Sums what is in `.grad` now; gradients that are undefined count as zeros.
  void sum();
  /// Finishes the sum of all that was added since the last call, and returns it, flat; with each_time zeros where nothing was
  /// added. Then all gradients are undefined.
  at::Tensor take();
  /// Whether there is a sum since the last `take`, with each_time, or may be one in lanes.
  bool has() const { return sum_.defined() || running_ || lanes_; }
  /// The bytes of that sum, which is finished first.
  int64_t bytes() {
    finish();
    return sum_.defined() ? static_cast<int64_t>(sum_.nbytes()) : 0;
  }

 private:
  struct Member {
    std::string name;
    at::Tensor parameter;
    int times = 0;  // how often backward added to it in the last step
    int added = 0;  // and in this one
  };
  void added(size_t member);
  bool has_gradients() const;
  at::Tensor pack_gradients();
  void finish();
  void keep(const at::Tensor& packed);
  void learn_uses();
  at::Tensor pack_lanes(Range node) const;
  at::Tensor sum_lanes();

  Bucket bucket_;
  std::vector<Member> members_;
  When when_;
  size_t missing_;  // the number of members that were not added to often enough yet
  bool is_begun_ = false;
  at::Tensor sum_;
  at::Tensor packed_;                 // what is being summed
  std::unique_ptr<Pending> running_;  // after packed_, which it reads
  std::deque<GradientHook> hooks_;
  // A weight that is used in two ways has a tree for each, the halves of one. Ranks of another stage use it in the other way.
  std::optional<HeldLanes> lanes_;
  std::vector<int> ranks_;                // that hold copies, in the order of the group
  std::vector<int> uses_;                 // of each member, a bit for each use; learnt from the first backward
  std::vector<std::vector<Range>> held_;  // of both halves, by rank; empty where nothing is in lanes
};

}  // namespace adjoin::parallel
