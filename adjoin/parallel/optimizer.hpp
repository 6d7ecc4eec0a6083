#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/bucket_sum.hpp"
#include "adjoin/parallel/update.hpp"

namespace adjoin::parallel {

class ArrivingWeights;
class WholeMatrices;

/// What a rule updates at once: a part of this worker's parameters. All tensors are flat, with the same length and type.
struct FlatPiece {
  at::Tensor value, gradient;       ///< the gradient, summed and clipped, may be overwritten
  std::vector<at::Tensor> moments;  ///< in the order of the rule's names; zeros before the first update
};

/// The number of an update, and how far it goes.
struct UpdateStep {
  int64_t number = 1;  ///< number of the update, counted from 1; skipped steps do not count
  double rate = 0;     ///< the learning rate
  double decay = 0;    ///< the weight decay; 0 for parameters that do not decay
};

/// How an optimizer changes matrices: `solve` changes a whole one, between two parts that work element by element as a Rule. A
/// matrix is solved by one of the workers that hold parts of it (WholeMatrices).
struct MatrixRule {
  std::vector<std::string> moments;
  /// Puts what is to be solved in the place of the gradient; the piece has no value.
  std::function<void(const FlatPiece&)> prepare;
  /// Changes a matrix [rows, columns] in place. `scratch` has memory for it, which may contain anything.
  std::function<void(const at::Tensor& matrix, const at::Tensor& scratch)> solve;
  std::function<int64_t(int64_t rows, int64_t columns)> scratch;    ///< its elements
  std::optional<at::ScalarType> type;                               ///< their type; none: that of the matrix
  std::function<double(int64_t rows, int64_t columns)> cost;        ///< of solving, in any unit: workers get equal sums
  std::function<void(const FlatPiece&, const UpdateStep&)> update;  ///< with what was solved as the gradient
};

/// How an optimizer changes one element, given its gradient and what it remembers of earlier gradients.
///
/// Element by element: element i of the value and the moments may depend on element i of the piece only, since the pieces
/// depend on the number of workers. It is called without recording gradients, and never for an empty piece.
struct Rule {
  std::string name;
  std::vector<std::string> moments;  ///< "first": a checkpoint stores that of a parameter as "first.NAME"
  std::function<void(const FlatPiece&, const UpdateStep&)> update;
  /// For parameters that are matrices; none: they are updated like all others.
  std::optional<MatrixRule> of_matrices = {};
};

/// Whether a rule has another one for this parameter: it has matrices, and is not complex.
bool takes_matrices(const Rule& rule, const nn::Parameter& parameter);

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

/// AdamW by LibTorch's fused kernel, with the moments "first" and "second".
/// Source: Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019
Rule adamw(AdamWOptions options = {});

struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
};

/// Does what torch::optim::SGD does, with LibTorch's fused kernel: weight decay adds decay times the value to the gradient.
/// With momentum the rule has the moment "momentum", without momentum it has none.
/// Throws: InvalidArgument for a momentum outside [0, 1), or Nesterov's without momentum
/// Source: Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013
Rule sgd(SgdOptions options = {});

struct OptimizerOptions {
  double weight_decay = 0;      ///< for parameters with two dims or more; biases and norms do not decay
  double clip = 0;              ///< the largest norm of the global gradient; 0: no clipping
  bool compares_copies = true;  ///< whether the first step compares the copies of each weight
  /// What is divided among the workers that hold copies of a parameter (ZeRO's stages): 0 nothing, 1 the moments, 2 also the
  /// gradients of matrices, which are summed each time that backward has added to them. What a rule solves as matrices is divided
  /// in any case.
  int zero = 1;
  /// Whether parameters that decay and others share messages, for small models whose steps wait for messages.
  bool joins_decays = false;
  /// The parameters to which backward adds equally often on all workers that hold copies, and in one order. Only their gradients
  /// are summed within backward: in stage 2; and where the copies are on several hosts, beside the rest of backward. By default
  /// those of stage 2 of which all copies are among the workers of the parameter's grid (Grid::workers).
  std::function<bool(const nn::Parameter&)> sums_in_backward{};
  /// Whether new weights that travel between hosts may arrive after `step`: operations of LibTorch wait for those that they read.
  /// Otherwise they arrive within it.
  bool weights_arrive_later = false;
  /// Where the gradients are, if the update is to have the same bits in every layout; on all workers. Then only those of stage 2 are
  /// summed within backward, in the last micro-batch's, and each of these parameters must be used once.
  std::optional<HeldLanes> lanes{};
  /// The workers over which the gradient's norm is computed; all of them call `step`. By default those of the parameters'
  /// layouts.
  std::optional<Communicator> workers{};
};

/// Updates parameters with any layouts by a rule: sums each parameter's gradient over the workers that hold
/// copies of it, and updates the copies alike.
///
/// Each worker keeps only the moments of its shard of every parameter (ZeRO stage 1, OptimizerOptions::zero). Gradients are
/// reduce-scattered, each worker updates its shard by the rule, and the new weights are gathered. All this is element by element, or of matrices that are whole meanwhile (MatrixRule), so the
/// result does not depend on the number of workers.
/// Cost:   2(P-1)/P of the parameters per step, as an all-reduce; in memory the rule's moments of 1/P of the parameters, in
///         whole rows
/// Source: Rajbhandari et al., "ZeRO", arXiv 1910.02054
class Optimizer {
 public:
  /// Constructed by all workers of the parameters' grids, which must have the same ranks unless the options give the workers.
  /// Buffers, and parameters that do not require gradients when the optimizer is made, are not updated. All workers list the
  /// same parameters in the same order; of parameters on other workers this one has no part, and for their moments it has
  /// tensors without elements.
  /// A complex parameter is updated as its real and imaginary parts; its moments are complex.
  /// Throws: InvalidArgument for parameters of several element types (complex128 goes with float64), or on several sets of ranks;
  ///         for a rule of matrices where no parameter is one; for a parameter whose gradients another object sums within backward
  Optimizer(std::vector<nn::Parameter> parameters, Rule rule, OptimizerOptions options = {});

  /// Sums the gradients, which are those of a loss times `loss_scale`, clips them by their global norm, in which each element
  /// of a global tensor counts once, and updates the weights; then the gradients are undefined. Called by all workers.
  ///
  /// An infinite or NaN gradient on any worker, even in one replica, makes all workers skip the update. The first call compares
  /// the copies of each weight, unless the options say otherwise: copies would never become equal if they did not begin equal.
  /// Throws: InvalidArgument as check_copies
  Update step(double learning_rate, double loss_scale = 1);
  /// Waits for weights that arrive later; to call before their memory is read other than by operations of LibTorch.
  void settle() const;

  /// The bytes of moments that this worker keeps.
  int64_t moment_bytes() const;

  /// What it updates.
  std::vector<at::Tensor> tensors() const;
  const Rule& rule() const { return rule_; }
  /// The number of updates, without skipped steps.
  int64_t steps_taken() const;
  void set_steps_taken(int64_t steps);

  /// The moments as pieces on the layouts of shards (adjoin::sharded): with AdamW "first.NAME" and "second.NAME" for each
  /// parameter, with Muon "momentum.NAME" for a matrix. The optimizer continues with values that are written into them.
  const std::vector<nn::Parameter>& moments() const { return moments_; }
  /// All of its state: the moments and "steps", a number that all workers hold.
  std::vector<nn::Parameter> state() const;

 private:
  /// Parameters that are reduced, updated and gathered together.
  struct UpdateGroup {
    Bucket bucket;
    std::vector<Bucket::Run> runs{};  // of this worker's shards, by whether they decay
    bool enters_norm = true;          // on one of the ranks that have copies
    bool has_matrices = false;        // which the rule updates in another way
    /// The bucket's parameters in the same order, in the buckets in which they are sent.
    std::vector<std::unique_ptr<BucketSum>> sums{};
    std::vector<at::Tensor> moments{};  // for this worker's shards, flat
  };

  /// Makes these moments of all parameters that are, or are not, updated as matrices.
  void make_moments(const std::vector<nn::Parameter>& of_all_workers, const std::vector<std::string>& names,
                    bool of_matrices);
  BucketSum::When when_summed(const nn::Parameter& parameter) const;
  bool is_cut(const nn::Parameter& parameter) const;
  bool enters_norm(const nn::Parameter& parameter) const;
  /// This worker's shards of the summed gradients, one tensor for each part.
  std::vector<at::Tensor> reduced_gradients();
  /// Where one worker finds a norm that is not finite, the result is not finite on any worker.
  double global_norm(const std::vector<at::Tensor>& gradients) const;
  /// The same whatever the layout.
  double fixed_norm(const std::vector<at::Tensor>& gradients) const;
  /// Replaces the gradients of matrices by what the rule makes of them.
  void solve_matrices(const std::vector<at::Tensor>& gradients, double factor) const;
  void update(const UpdateGroup& part, const at::Tensor& gradient, double factor, double learning_rate,
              const std::vector<at::Tensor>& weights) const;
  static bool is_gathered(const Bucket& message) { return message.is_cut() && message.copies().size() > 1; }
  /// Whether new weights travel beside the next update: those of several messages would all be packed at once, and ranks read
  /// them at different places of their calls.
  static bool travel(const UpdateGroup& part) {
    return part.sums.size() == 1 && is_gathered(part.bucket) && part.bucket.copies().backend()->overlaps();
  }
  std::shared_ptr<ArrivingWeights> arriving_weights() const;

  Rule rule_;
  OptimizerOptions options_;
  std::vector<nn::Parameter> parameters_;  // those of which this worker has a part
  std::vector<UpdateGroup> parts_;
  std::vector<std::shared_ptr<const WholeMatrices>> matrices_;
  std::shared_ptr<ArrivingWeights> arriving_;  // none where nothing travels between hosts
  std::vector<nn::Parameter> moments_;         // views of the parts' moments
  Communicator workers_;                       // over which the norm is computed
  std::optional<Grid> grid_;                   // of the first parameter
  at::Tensor steps_;
};

}  // namespace adjoin::parallel
