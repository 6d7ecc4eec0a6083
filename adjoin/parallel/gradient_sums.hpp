#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/gradient_hook.hpp"
#include "adjoin/parallel/looked_up.hpp"

namespace adjoin::parallel {

/// The gradients of a module's weights, summed over the ranks of a group in buckets, in hooks of backward.
///
/// A bucket's gradients are complete when each was added to as often as in the step before. What is added later is summed at the
/// end of the backward, so weights that are used at several places, or on some ranks only, need no declaration. So are the gradients
/// of rows; from the next backward on, what else a table's gradient has is summed there too.
class GradientSums {
 public:
  struct Options {
    bool to_owners = false;                     ///< whether a rank gets the sum of its shard only
    std::optional<at::ScalarType> wire{};       ///< the type in which they are sent
    std::optional<AsyncCommunicator> stream{};  ///< where sums run beside backward
    std::string who = "Weights";                ///< the beginning of error messages
    /// With owners: for each weight its table, which is alone in its bucket, or nullptr.
    std::vector<LookedUp*> tables{};
  };

  /// `complete` is called with a bucket's number when its gradients are complete. Each rank then calls carry_out, in the same
  /// order.
  GradientSums(std::vector<nn::Parameter> trained, const std::vector<std::vector<size_t>>& buckets, Communicator group,
               Options options, std::function<void(size_t bucket)> complete);

  /// From now on backward may add to gradients; those from before the first call since `give` or `forget` are set aside. If `sums`,
  /// they are summed over the ranks, times `scale`; otherwise they add up in `.grad`.
  void begin(bool sums, double scale = 1);
  /// A collective. Starts the sum of a bucket, complete or not.
  void carry_out(size_t bucket);
  /// A collective, after a backward with sums: finishes them.
  /// Throws: InvalidArgument, on all ranks, with the name of a parameter whose gradient is sparse
  void finish();
  /// Adds the sums, times `factor`, to `.grad` of `targets`, those that any rank has used. With owners the targets are shards.
  void give(double factor, const std::vector<at::Tensor>& targets);
  /// Nothing may be added to gradients now.
  void rest() { now_ = Now::idle; }
  /// Drops the sums and puts the gradients from before back.
  void forget();

  /// Throws: InvalidArgument for a weight that was given another size or type
  void check_sizes() const;

 private:
  enum class Now : uint8_t { idle, adding, summing };
  struct Weight {
    size_t bucket = 0;
    at::Tensor before;    // its gradient when the first backward began
    at::Tensor gradient;  // taken from .grad, then summed
    at::Tensor sum;       // of all backwards since the last update; with owners flat, of this rank's shard
    int times = 1;        // how often its gradient was added to in the last step's last backward
    int added = 0;        // how often in this one
    bool used = false, late = false, sparse = false;
    LookedUp* table = nullptr;
    bool has_rows = false;  // whether any rank has gradients of rows
  };
  struct Sum {
    std::optional<Bucket> bucket;  // none where its weight is a table in which rows were looked up
    size_t missing = 0;            // number of members whose gradients are not complete
    bool is_sent = false;
    at::Tensor packed{}, wire{};
    std::optional<Handle> handle{};
  };

  void added(size_t weight);
  at::Tensor taken_gradient(size_t weight);
  void send(Sum& sum);
  void receive(Sum& sum);
  void join_flags();
  void end_step();

  std::vector<nn::Parameter> parameters_, reals_;
  Communicator group_;
  Options options_;
  std::function<void(size_t)> complete_;
  std::vector<Weight> weights_;  // for each parameter
  std::vector<Sum> sums_;
  std::deque<GradientHook> hooks_;  // on the parameters
  Now now_ = Now::idle;
  double scale_ = 1;
  bool began_ = false;  // whether gradients were set aside
};

}  // namespace adjoin::parallel
