#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/parallel/weight_shards.hpp"
#include "adjoin/partition/grid.hpp"

namespace adjoin::parallel {

/// Trains a torch::nn::Sequential with a batch that is split over the ranks of a group. Each rank keeps only its shard of the
/// weights, gradients and moments (ZeRO stage 3), and has the whole weights of one child while that child runs, forward and
/// backward.
///
///     parallel::ShardedSequential net(sequential, world);
///     torch::optim::AdamW optimizer(net.shards(), torch::optim::AdamWOptions(1e-3));
///     while (net.any(batches.has_next())) {
///       const Batch batch = batches.next();  // of other sizes on other ranks, or of no samples
///       const double loss = net.backward(loss_of(net.forward(batch.x), batch.y), batch.size());
///       net.step(optimizer, /*clip=*/1);
///     }
///
/// Each rank makes the whole module, and all ranks call each function. Every rank must use the same parameters in the same
/// order: a rank without samples runs a batch of no samples. For a checkpoint save `parameters()` and state_of(optimizer,
/// parameters()): they are saved as global tensors, which any number of ranks can load.
/// Cost:   two all-gathers of each weight per batch (one for the last child) and one reduce-scatter; in memory 1/P of weights,
///         gradients and moments, and the weights of the largest child with their gradients
/// Source: Rajbhandari et al., "ZeRO", arXiv 1910.02054
class ShardedSequential {
 public:
  /// All ranks begin with rank 0's values. Children must take one tensor, return one, and not change their weights (no
  /// Embedding with max_norm). Outside its child's forward and backward a weight of the module has no memory, and LibTorch
  /// throws where something reads it.
  /// Throws: InvalidArgument, on all ranks, for a module without children; with the name of the first parameter or buffer that
  ///         differs between ranks, that is a piece of a global tensor, or whose gradients something else already sums
  ShardedSequential(const torch::nn::Sequential& module, const Communicator& group);
  // The result of `forward` refers to this object until its backward has run.
  ShardedSequential(const ShardedSequential&) = delete;
  ShardedSequential& operator=(const ShardedSequential&) = delete;

  /// The module's output for this rank's samples.
  /// Throws: InvalidArgument for a child that returns anything but one tensor
  at::Tensor forward(at::Tensor x);

  struct Backward {
    bool last = true;  ///< whether an update follows; otherwise gradients are only added up here
  };

  /// Adds to the `.grad` of the shards the gradient of the mean loss over all samples of all ranks, in this call and the calls
  /// before it that were not the last. Returns that mean: the one that one worker gets from all samples in one batch. The mean
  /// loss of no samples may be any number, even NaN. A parameter that no rank has used keeps its previous gradient, which may
  /// be none.
  ///
  /// Then floating-point buffers become their means weighted by samples, and others become those of the first rank with
  /// samples. Where no rank has any, gradients and buffers do not change, and the mean is 0. A call that is not the last
  /// returns this rank's mean loss.
  /// Throws: InvalidArgument for a loss that is not a single number, fewer than 0 samples, sparse gradients, and a parameter
  ///         that did not require gradients when this object was made
  double backward(const at::Tensor& mean_loss, int64_t samples, Backward options);
  double backward(const at::Tensor& mean_loss, int64_t samples) { return backward(mean_loss, samples, Backward{}); }

  /// Scales the gradients of the optimizer's shards so that their norm over all ranks is at most `clip`, unless that is 0; lets
  /// the optimizer update the shards; and makes their gradients undefined. Where the norm is not finite, no rank updates
  /// anything.
  ///
  /// The optimizer must work element by element, as those of torch::optim do except LBFGS. Several optimizers may have
  /// different shards.
  /// Throws: InvalidArgument for LBFGS, for an optimizer with tensors that are not in shards(), and after a backward that was
  ///         not the last
  /// Cost:   an all-reduce of one number
  Update step(torch::optim::Optimizer& optimizer, double clip = 0);

  /// Whether `here` is true on any rank: so a loop over batches ends on all ranks when none has one left.
  bool any(bool here) const;

  /// This rank's shards of the trained parameters, in the module's order: an optimizer is constructed from them. A shard
  /// consists of whole rows, divided over the ranks as evenly as possible, and may have none.
  std::vector<at::Tensor> shards() const;
  /// The shards of all parameters, as pieces of global tensors, and the buffers, by the module's names.
  const std::vector<nn::Parameter>& parameters() const { return parameters_; }
  /// The ranks as one axis, "dp"; the grid of the pieces' layouts.
  const Grid& grid() const { return grid_; }

 private:
  void check_not_thawed() const;
  /// The samples and losses of all ranks since the last update.
  struct Sums {
    double samples, losses;
    int first_with_samples;
  };
  Sums sum_over_ranks() const;

  std::shared_ptr<torch::nn::SequentialImpl> module_;
  Grid grid_;
  std::vector<std::shared_ptr<WeightShards>> children_;  // for children with their own parameters
  ShardedSegments segments_;
  std::vector<nn::Parameter> parameters_;
  std::vector<std::pair<std::string, at::Tensor>> frozen_;
  bool runs_backward_ = false;
  bool awaits_last_ = false;  // whether gradients have been added up since the last backward with `last`
  int64_t samples_ = 0;       // of this rank, in the calls since the last update
  double losses_ = 0;
};

}  // namespace adjoin::parallel
