#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/gradient_shard.hpp"
#include "adjoin/parallel/rule.hpp"

namespace adjoin::parallel {

struct OptimizerOptions {
  double weight_decay = 0;      ///< of parameters with two dims or more; biases and norms are left alone
  double clip = 0;              ///< the largest norm of the global gradient; 0: as it comes
  bool compares_copies = true;  ///< whether the first step compares the copies of each weight
  /// The parameters whose gradients are summed within backward, each time that it has added to them, so that a worker keeps shards
  /// of them alone (ZeRO stage 2); of matrices that have copies. None unless given.
  std::function<bool(const nn::Parameter&)> sums_in_backward{};
  /// The workers over which the gradient's norm is taken, which all call `step`; unless given, those of the parameters' layouts.
  std::optional<Communicator> workers{};
};

/// What a step came to, the same on all workers.
struct Update {
  double norm = 0;       ///< of the global gradient, before clipping
  bool skipped = false;  ///< the norm was not finite: weights and moments are as they were
};

/// Updates parameters that lie on any layouts by an element-wise rule: sums each one's gradients over the workers that
/// hold copies of it, and updates the copies alike.
///
/// Each worker keeps the moments of its shard of every parameter alone (ZeRO stage 1), and if it is told so the gradients of
/// it (stage 2, GradientShard): gradients are reduce-scattered,
/// each worker updates its shard by the rule, and the new weights are gathered. By elements, so the result does not
/// depend on the number of workers.
/// Cost:   2(P-1)/P of the parameters a step, as an all-reduce; the rule's moments of 1/P of the parameters in memory,
///         in whole rows
/// Source: Rajbhandari et al., "ZeRO", arXiv 1910.02054
class Optimizer {
 public:
  /// Made by all workers of the parameters' grids, which are of the same ranks unless the options give the workers. Buffers,
  /// and what does not require gradients when the optimizer is made, are left alone. Of parameters on other workers, which all
  /// name in the same order, this one has no part, and of their moments tensors of no elements.
  /// Throws: InvalidArgument for parameters of several element types, or on several sets of ranks
  Optimizer(std::vector<nn::Parameter> parameters, Rule rule, OptimizerOptions options = {});

  /// Sums the gradients, which are those of a loss times `loss_scale`, clips them by their global norm, in which each
  /// element of a global tensor counts once, and updates the weights; the gradients are then gone. Called by all workers.
  ///
  /// An infinite or NaN gradient on any of them, also of one replica, makes all skip the update alike. The first call compares
  /// the copies of each weight, unless the options say otherwise: they would never become equal if they did not begin so.
  /// Throws: InvalidArgument as check_copies does
  Update step(double learning_rate, double loss_scale = 1);

  /// The bytes of moments that this worker keeps.
  int64_t moment_bytes() const;

  const Rule& rule() const { return rule_; }
  /// The updates, without steps that were skipped.
  int64_t steps_taken() const;
  void set_steps_taken(int64_t steps);

  /// The moments as pieces on the layouts of shards (adjoin::sharded): with AdamW "first.NAME" and "second.NAME" of each
  /// parameter. What is written into them the optimizer goes on with.
  const std::vector<nn::Parameter>& moments() const { return moments_; }
  /// All that it remembers: the moments and "steps", a number that all workers hold.
  std::vector<nn::Parameter> state() const;

 private:
  /// Parameters that are reduced, updated and gathered in one go.
  struct Part {
    Bucket bucket;
    bool decays = false;                     // whether weights decay
    bool counts = true;                      // whether this worker counts them in the norm, for all that hold replicas
    std::unique_ptr<GradientShard> shard{};  // where gradients are summed within backward
    std::vector<at::Tensor> moments{};       // of this worker's shards, flat
  };

  /// This worker's shards of the summed gradients, of each part.
  std::vector<at::Tensor> reduced_gradients();
  /// Not finite on any worker where it is not on one.
  double global_norm(const std::vector<at::Tensor>& gradients) const;
  void update(const Part& part, const at::Tensor& gradient, double factor, double learning_rate,
              const std::vector<at::Tensor>& weights) const;

  Rule rule_;
  OptimizerOptions options_;
  std::vector<nn::Parameter> parameters_;  // of which this worker has a part
  std::vector<Part> parts_;
  std::vector<nn::Parameter> moments_;  // views of the parts'
  Communicator workers_;                // over which the norm is taken
  std::optional<Grid> grid_;            // of the first parameter
  at::Tensor steps_;
};

}  // namespace adjoin::parallel
