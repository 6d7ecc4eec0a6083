#pragma once

#include <optional>
#include <string>

#include "adjoin/insitu/network.hpp"

namespace adjoin::insitu {

/// How the difference of an output and its target counts: its square, its absolute value, or Huber's: half its square up to `delta`, and
/// beyond that delta times (its absolute value - delta / 2).
struct Loss {
  enum class Kind : uint8_t { mse, mae, huber };
  Kind kind = Kind::mse;
  double delta = 1;

  /// "mse", "mae", "huber". Throws: InvalidArgument for another word, or a delta that is not above 0
  static Loss named(const std::string& name, double delta);
};

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

  /// `inputs`: this rank's piece [batch, channels, *cells] in the network's type; the pass may keep it.
  Pass(Network& network, const at::Tensor& inputs, int64_t batch, const Options& options);

  Network& network() const { return network_; }
  /// Samples of each member.
  int64_t batch() const { return output_.layout.shape()[0] / network_.blocks().members(); }
  /// This rank's piece [batch, channels, *cells].
  at::Tensor output() const { return output_.local.detach(); }

  /// This rank's sums for the loss: of the weighted differences, and of the weights of all elements. `target` is a piece like the
  /// output's; `weights`, which may be undefined, one that broadcasts to it. Where the last layer gives outputs their deviation,
  /// differences are divided by it.
  struct Sums {
    at::Tensor of_differences;
    double of_weights = 0;
  };
  Sums sums(const Loss& loss, const at::Tensor& target, const at::Tensor& weights) const;
  /// From then on backward begins with the sum over all ranks divided by `weight`, the sum of all their weights.
  void set_loss(const Sums& sums, double weight);

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
  DistributedTensor output_;
  at::Tensor loss_;
  bool has_gone_back_ = false;
};

}  // namespace adjoin::insitu
