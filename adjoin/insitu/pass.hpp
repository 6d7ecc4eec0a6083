#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "adjoin/insitu/network.hpp"

namespace adjoin::insitu {

/// How the difference of each output and its target counts.
using Loss = std::function<at::Tensor(const at::Tensor& difference)>;
/// "mse": its square; "mae": its absolute value; "huber": half its square up to `delta`, and beyond that delta times (its absolute value -
/// delta / 2). Throws: InvalidArgument for another word, or a delta that is not above 0
Loss loss_named(const std::string& name, double delta);

/// One forward pass of a network, and what backward needs of it. Several may be alive. All ranks of the world call each function, also
/// those without cells, whose pieces have no elements.
class Pass {
 public:
  struct Options {
    bool trains = true;            ///< whether norms and dropouts train
    bool records = true;           ///< whether backward will follow
    bool input_gradients = false;  ///< whether backward gives the inputs' gradients too
    Step step = {};                ///< for dropout
  };

  /// `input`: as Network::input, filled in; the pass may keep it.
  Pass(Network& network, DistributedTensor input, const Options& options);

  /// Samples of each member.
  int64_t batch() const { return output_->layout.shape()[0] / network_.blocks().members(); }
  /// This rank's piece [batch, channels, *cells].
  at::Tensor output() const { return output_->local.detach(); }

  /// This rank's part of a loss. `target` is a piece like the output's; `weights`, which may be undefined, one that broadcasts to it. Where
  /// the last layer gives outputs their deviation, differences are divided by it.
  struct PartOfLoss {
    at::Tensor differences;        ///< the sum of the weighted ones
    std::array<double, 2> sums{};  ///< this, and that of the weights of all elements
  };
  PartOfLoss part_of_loss(const Loss& loss, const at::Tensor& target, const at::Tensor& weights) const;
  /// The loss of a part whose `sums` were added up over all ranks. From then on backward begins with it.
  /// Throws: InvalidArgument where the weights' sum is not above 0
  double set_loss(const PartOfLoss& part);

  /// From the loss, or from a gradient of the output, whose piece is given. Adds to the gradients of the weights. A pass has one backward.
  /// Throws: InvalidArgument on all ranks alike without a loss, without a record, or the second time
  void backward(const std::optional<at::Tensor>& output_gradient = {});
  /// Throws: InvalidArgument where `backward` would
  void check_backward(bool has_output_gradient) const;
  /// This rank's piece of the gradient. Throws: InvalidArgument where it was not asked for, or before backward
  at::Tensor input_gradient() const;

 private:
  Network& network_;
  Options options_;
  at::Tensor input_;
  std::optional<DistributedTensor> output_;
  at::Tensor loss_;
  bool has_gone_back_ = false;
};

}  // namespace adjoin::insitu
