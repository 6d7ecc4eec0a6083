#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/update.hpp"
#include "adjoin/partition/grid.hpp"

namespace adjoin::parallel {

class Optimizer;

struct WeightsOptions {
  /// What each rank keeps of its shard only (ZeRO's stages): 0 nothing, 1 an optimizer's moments, 2 also gradients, 3 also the
  /// weights, which are whole while an operation reads them.
  int zero = 1;
  enum class Overlap : uint8_t { automatic, off, on };
  /// Whether gradients are summed beside backward, on the group's stream, or within it. automatic: beside it where the group
  /// spans hosts. On one host the sum would use the cores that compute. Stage 3 sums within backward.
  Overlap overlap = Overlap::automatic;
  /// The type in which float32 and float64 gradients are sent and added: at::kBFloat16 halves the bytes of float32.
  std::optional<at::ScalarType> wire{};
  /// Gradients are summed together up to this many bytes; a larger one is sent alone, without a copy.
  int64_t bucket_bytes = 4 << 20;
  /// In stage 3, what one module owns itself is gathered together, also small neighbours up to this many bytes.
  int64_t unit_bytes = 1 << 20;
};

/// The weights of any torch::nn::Module that is trained with a batch that is split over the ranks of a group. Each rank makes the
/// module, which stays as it is:
///
///     parallel::Weights weights(*module, world, {.zero = 3});
///     torch::optim::AdamW optimizer(weights.parts(), torch::optim::AdamWOptions(1e-3));
///     while (weights.any(batches.has_next())) {
///       const Batch batch = batches.next();  // of other sizes on other ranks, or of no samples
///       const double loss = weights.backward(loss_of(module->forward(batch.x), batch.y), batch.size());
///       weights.step(optimizer, /*clip=*/1);
///     }
///
/// Ranks may reach weights in different orders, or not at all. In stage 3 a module's forward and backward gather each weight that
/// they read, at most two units of them at a time; a unit costs one gather in each of forward and backward where all ranks come to
/// the units in the order of the step before, and otherwise further calls. Forward passes must not change weights. Autocast keeps
/// 16-bit copies of all weights for backward. A module whose own layers communicate must come to its weights in one order on all
/// ranks.
///
/// A table that is a unit of its own is not gathered where at::embedding looks rows up: only the rows move, and after backward
/// their gradients (LookedUp), but in the first step the whole gradient is summed too. Other reads of it are as of any weight.
/// Source: Rajbhandari et al., "ZeRO", arXiv 1910.02054; Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
///         Training", VLDB 2020
class Weights {
 public:
  /// Copies the parameters and buffers of rank 0 to all ranks of the group, which all call it. The module must outlive this object;
  /// with stage 3 it has no weights afterwards.
  /// Throws: InvalidArgument, on all ranks, that names the first parameter or buffer whose name, shape, type or requires_grad
  ///         differs between ranks; for one module of several ranks; for one whose gradients another object sums; for parameters
  ///         that are pieces of global tensors (sum_gradients and Optimizer handle these), or share memory; for a wire type that is
  ///         not floating point
  Weights(torch::nn::Module& module, const Communicator& group, WeightsOptions options = {});
  ~Weights();
  Weights(Weights&&) noexcept;
  Weights& operator=(Weights&&) noexcept;

  struct Backward {
    bool last = true;           ///< whether an update follows; otherwise gradients only add up
    bool retain_graph = false;  ///< as in LibTorch
  };

  /// Adds to the `.grad` of parts() the gradient of the mean loss over all samples of all ranks, in this call and the calls before
  /// it that were not the last. Returns that mean: the one that one worker gets from all samples in one batch. Called by all ranks;
  /// one without samples passes 0 and any loss, also an undefined one. Parts of parameters that no rank has used keep their
  /// gradient, which may be none.
  ///
  /// Then buffers are made equal: floating-point buffers, such as running means, become the mean weighted by samples; others
  /// become those of the first rank that has samples. Where no rank has any, nothing changes, and the mean is 0. A call that is
  /// not the last returns this rank's mean loss; in stages 0 and 1 it sends nothing. Batch statistics are each rank's own:
  /// nn::distributed has a batch norm over all samples. A parameter that is used at several places is summed once more in the first
  /// step.
  /// Throws: InvalidArgument for a loss that is not a single number, or fewer than 0 samples; where the module's parameters were
  ///         replaced or resized; on all ranks, with the parameter's name, for sparse gradients, and for a parameter that did not
  ///         require gradients when this object was made
  /// Cost:   an all-reduce of the gradients (from stage 1 on a reduce-scatter), one of 3 bytes per parameter, one of the buffers, and
  ///         an all-gather of 24 bytes per rank
  double backward(const at::Tensor& mean_loss, int64_t samples, Backward options);
  double backward(const at::Tensor& mean_loss, int64_t samples) { return backward(mean_loss, samples, Backward{}); }

  /// Scales the gradients of the optimizer's parts so that their norm over all ranks is at most `clip`, unless that is 0; lets the
  /// optimizer update the parts; gives all ranks what has changed; and makes the gradients undefined. Where the norm is not finite,
  /// no rank updates anything.
  ///
  /// The optimizer must work element by element, as those of torch::optim do except LBFGS. Several optimizers may have different
  /// parts.
  /// Throws: InvalidArgument for LBFGS, for an optimizer with tensors that are not in parts(), and after a backward that was not the
  ///         last
  /// Cost:   an all-reduce of one number; in stages 1 and 2 an all-gather of the optimizer's weights
  Update step(torch::optim::Optimizer& optimizer, double clip = 0);
  /// The same for any optimizer of the parts in `of`, which `update` runs.
  Update step(const std::vector<at::Tensor>& of, const std::function<void()>& update, double clip = 0);

  /// The same by a rule of ours, with the clipping that the optimizer has: `Optimizer optimizer(weights.trained(), adamw())`. The
  /// gradients are those of a loss times `loss_scale`. A parameter that no rank has used has a gradient of zeros.
  Update step(Optimizer& optimizer, double learning_rate, double loss_scale = 1);

  /// Whether `here` is true on any rank: so a loop over batches ends on all ranks when none has one left. Called by all ranks.
  bool any(bool here) const;

  /// What an optimizer of this rank updates, for each trained parameter in the module's order: in stage 0 the parameter itself,
  /// otherwise this rank's shard of it, of whole rows, divided over the ranks as evenly as possible; it may have none.
  std::vector<at::Tensor> parts() const;
  /// The same as pieces of global tensors, for which state_of finds an optimizer's moments, and for an Optimizer.
  const std::vector<nn::Parameter>& trained() const;
  /// All parameters and buffers as pieces of global tensors, by the module's names: a checkpoint that any number of ranks reads.
  const std::vector<nn::Parameter>& parameters() const;
  /// The ranks as one axis, "dp"; the grid of the pieces' layouts.
  const Grid& grid() const;

  /// Returns a weight of the module after it was made whole until the next call of backward, step or any: for code that reads its
  /// memory itself.
  at::Tensor use(const at::Tensor& weight);
  /// Runs `work` while the module has all of its weights, which it may change alike on all ranks. Called by all ranks.
  /// Cost: in stage 3 an all-gather and the memory of all weights
  void while_whole(const std::function<void()>& work);

 protected:
  Weights(torch::nn::Module& module, const Communicator& group, WeightsOptions options, std::string who);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace adjoin::parallel
