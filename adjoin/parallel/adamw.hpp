#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::parallel {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0.01;  ///< of parameters with two dims or more; biases and norms are left alone
  double clip = 0;             ///< the largest norm of the global gradient; 0: as it comes
};

/// What AdamW remembers of a parameter's gradients: their mean and the mean of their squares.
enum class Moment : uint8_t { first, second };

/// AdamW for parameters that lie on any layouts: sums each one's gradients over the workers that hold copies of it, and
/// updates the copies alike.
///
/// Each worker keeps the moments of its part of every parameter alone (ZeRO stage 1): gradients are reduce-scattered,
/// each worker updates its part with LibTorch's fused kernel, and the new weights are gathered. Elementwise, so the
/// result does not depend on the number of workers.
/// Cost:   2(P-1)/P of the parameters a step, as an all-reduce; two moments of 1/P of the parameters in memory
/// Source: Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019;
///         Rajbhandari et al., "ZeRO", arXiv 1910.02054
class DataParallelAdamW {
 public:
  /// Made by all workers of the parameters' grids, which are of the same ranks. Small parameters become views of one buffer, so that they travel
  /// together. Buffers, and what does not require gradients when the optimizer is made, are left alone.
  /// Throws: InvalidArgument for parameters of several element types, or on several sets of ranks
  DataParallelAdamW(std::vector<nn::Parameter> parameters, AdamWOptions options);

  /// Sums the gradients, clips them by their global norm, in which each element of a global tensor counts once, and
  /// updates the weights; the gradients are then gone. Called by all workers. Returns the norm before clipping.
  double step(double learning_rate);

  int64_t steps_taken() const { return steps_; }

  /// The parameters that it updates, in an order of its own that is the same on all workers that hold copies of them.
  std::vector<nn::Parameter> parameters() const;
  /// A moment of parameters()[i], shaped like it, on the first of the workers that hold copies of it, which all call: it
  /// is joined there; of no elements on the others.
  at::Tensor moment(size_t i, Moment moment) const;
  /// Takes over the moments that `moment` gives, shaped like their parameters, after `steps` steps.
  void load_state(int64_t steps, const std::function<at::Tensor(const nn::Parameter&, Moment)>& moment);

 private:
  /// Parameters that are reduced, updated and gathered in one go.
  struct Bucket {
    std::vector<nn::Parameter> parameters;
    bool decays = false;               // whether weights decay
    bool counts = true;                // whether this worker counts them in the norm, for all that hold replicas
    Communicator copies;               // the workers that hold copies of these parameters
    at::Tensor values, first, second;  // values: of all parameters, flat; the moments: of this worker's part
    std::optional<Split> split;        // of the flat values over the workers
    const at::Tensor& moment(Moment which) const { return which == Moment::first ? first : second; }
    at::Tensor part(const at::Tensor& flat) const {
      return flat.narrow(0, split->offset(copies.rank()), split->size(copies.rank()));
    }
  };

  void add(Bucket bucket);
  /// This worker's part of the summed gradients.
  at::Tensor reduced_gradients(const Bucket& bucket) const;
  double global_norm(const std::vector<at::Tensor>& gradients) const;
  void update(const std::vector<at::Tensor>& gradients, double learning_rate);

  Communicator workers_;  // of all parameters' grids
  AdamWOptions options_;
  std::vector<Bucket> buckets_;
  int64_t steps_ = 0;
};

}  // namespace adjoin::parallel
