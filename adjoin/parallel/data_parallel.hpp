#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <optional>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::parallel {

struct DataParallelOptions {
  enum class Overlap : uint8_t { automatic, off, on };
  /// Whether gradients are summed beside backward, on the group's stream, or within it. automatic: beside it where the group
  /// spans hosts. On one host the sum would use the cores that compute.
  Overlap overlap = Overlap::automatic;
  /// The type in which float32 and float64 gradients are sent and added: at::kBFloat16 halves the bytes of float32.
  std::optional<at::ScalarType> wire{};
  /// Gradients are summed together up to this many bytes; a larger one is sent alone, without a copy.
  int64_t bucket_bytes = 4 << 20;
};

/// Trains one module with a batch that is split over the ranks of a group: any module of LibTorch, with any of its optimizers.
///
///     parallel::DataParallel data(*module, world);
///     while (data.any(batches.has_next())) {
///       optimizer.zero_grad();
///       const Batch batch = batches.next();  // of other sizes on other ranks, or of no samples
///       const double loss = data.backward(loss_of(module->forward(batch.x), batch.y), batch.size());
///       optimizer.step();
///     }
///
/// Each rank holds the whole module, with the parameters in the same order. Their gradients are sent in buckets as soon as
/// backward has computed them, those of the last parameters first. A module whose layers communicate with other ranks, such as
/// a synchronised batch norm, must use its parameters in the same order on all ranks, or set overlap on.
/// Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020
class DataParallel {
 public:
  /// Copies the parameters and buffers of rank 0 to all ranks of the group, which all call it. The module must outlive this
  /// object.
  /// Throws: InvalidArgument, on all ranks, that names the first parameter or buffer whose name, shape, type or requires_grad
  ///         differs between ranks; for a module that is already in a DataParallel; for parameters that are pieces of global
  ///         tensors (sum_gradients and Optimizer handle these); for a wire type that is not floating point
  DataParallel(torch::nn::Module& module, const Communicator& group, DataParallelOptions options = {});
  ~DataParallel();
  DataParallel(DataParallel&&) noexcept;
  DataParallel& operator=(DataParallel&&) noexcept;

  struct Backward {
    bool last = true;           ///< whether an update follows; otherwise gradients are only added up, without a message
    bool retain_graph = false;  ///< as in LibTorch
  };

  /// Adds to each parameter's `.grad` the gradient of the mean loss over all samples of all ranks, in this call and the calls
  /// before it that were not the last. Returns that mean: the one that one worker gets from all samples in one batch. Called by
  /// all ranks; one without samples passes 0 and any loss, also an undefined one. Parameters that no rank has used keep their
  /// previous gradient, which may be none.
  ///
  /// Then buffers are made equal: floating-point buffers, such as running means, become the mean weighted by samples; others
  /// become those of the first rank that has samples. Where no rank has any, nothing changes, and the mean is 0. A call that is
  /// not the last returns this rank's mean loss. Batch statistics are each rank's own: nn::distributed has a batch norm over
  /// all samples. A parameter that is used at several places within adjoin::recomputed is summed once more in the first step.
  /// Throws: InvalidArgument for a loss that is not a single number, or fewer than 0 samples; on all ranks, with the
  ///         parameter's name, for sparse gradients, and for a parameter that did not require gradients when this object was
  ///         made
  /// Cost:   an all-reduce of the gradients, one of 3 bytes per parameter, one of the buffers, and an all-gather of 24 bytes
  ///         per rank
  double backward(const at::Tensor& mean_loss, int64_t samples, Backward options);
  double backward(const at::Tensor& mean_loss, int64_t samples) { return backward(mean_loss, samples, Backward{}); }

  /// Whether `here` is true on any rank: so a loop over batches ends on all ranks when none has one left. Called by all ranks.
  bool any(bool here) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace adjoin::parallel
