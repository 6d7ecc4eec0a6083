#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/rule.hpp"

namespace adjoin::parallel {

struct OptimizerOptions {
  double weight_decay = 0;      ///< of parameters with two dims or more; biases and norms are left alone
  double clip = 0;              ///< the largest norm of the global gradient; 0: as it comes
  bool compares_copies = true;  ///< whether the first step compares the copies of each weight
};

/// What a step came to, the same on all workers.
struct Update {
  double norm = 0;       ///< of the global gradient, before clipping
  bool skipped = false;  ///< the norm was not finite: weights and moments are as they were
};

/// Updates parameters that lie on any layouts by an element-wise rule: sums each one's gradients over the workers that
/// hold copies of it, and updates the copies alike.
///
/// Each worker keeps the moments of its part of every parameter alone (ZeRO stage 1): gradients are reduce-scattered,
/// each worker updates its part by the rule, and the new weights are gathered. By elements, so the result does not
/// depend on the number of workers.
/// Cost:   2(P-1)/P of the parameters a step, as an all-reduce; the rule's moments of 1/P of the parameters in memory
/// Source: Rajbhandari et al., "ZeRO", arXiv 1910.02054
class Optimizer {
 public:
  /// Made by all workers of the parameters' grids, which are of the same ranks. Small parameters become views of one
  /// buffer, so that they travel together. Buffers, and what does not require gradients when the optimizer is made, are
  /// left alone.
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
  int64_t steps_taken() const { return steps_; }

  /// The parameters that it updates, in an order of its own that is the same on all workers that hold copies of them.
  std::vector<nn::Parameter> parameters() const;
  /// The moment rule().moments[which] of parameters()[i], shaped like it, on the first of the workers that hold copies of
  /// it, which all call: it is joined there; of no elements on the others.
  at::Tensor moment(size_t i, size_t which) const;
  /// Takes over the moments that `moment` gives, shaped like their parameters, after `steps` updates.
  void load_state(int64_t steps,
                  const std::function<at::Tensor(const nn::Parameter&, const std::string& moment)>& moment);

 private:
  /// Parameters that are reduced, updated and gathered in one go.
  struct Bucket {
    std::vector<nn::Parameter> parameters;
    bool decays = false;              // whether weights decay
    bool counts = true;               // whether this worker counts them in the norm, for all that hold replicas
    Communicator copies;              // the workers that hold copies of these parameters
    at::Tensor values;                // of all parameters, flat
    std::vector<at::Tensor> moments;  // of this worker's part
    std::optional<Split> split;       // of the flat values over the workers
    at::Tensor part(const at::Tensor& flat) const {
      return flat.narrow(0, split->offset(copies.rank()), split->size(copies.rank()));
    }
  };

  void add(Bucket bucket);
  /// This worker's part of the summed gradients.
  at::Tensor reduced_gradients(const Bucket& bucket) const;
  /// Not finite on any worker where it is not on one.
  double global_norm(const std::vector<at::Tensor>& gradients) const;
  void update(const std::vector<at::Tensor>& gradients, double factor, double learning_rate);
  void gather_weights() const;

  Communicator workers_;  // of all parameters' grids
  Rule rule_;
  OptimizerOptions options_;
  std::vector<Bucket> buckets_;
  int64_t steps_ = 0;
};

}  // namespace adjoin::parallel
