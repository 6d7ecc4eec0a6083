#include "adjoin/insitu/pass.hpp"

#include <ATen/ATen.h>

#include "adjoin/base/error.hpp"
#include "adjoin/insitu/normaliser.hpp"

namespace adjoin::insitu {

Loss loss_named(const std::string& name, double delta) {
  require(delta > 0, "loss: expected a delta above 0, got ", delta);
  if (name == "mse") return [](const at::Tensor& x) { return x.square(); };
  if (name == "mae") return [](const at::Tensor& x) { return x.abs(); };
  require(name == "huber", "loss: expected mse, mae or huber, got '", name.substr(0, 60), "'");
  return [delta](const at::Tensor& x) { return at::huber_loss(x, at::zeros_like(x), at::Reduction::None, delta); };
}

Pass::Pass(Network& network, DistributedTensor input, const Options& options) : network_(network), options_(options) {
  const at::AutoGradMode records(options.records);
  network.train(options.trains);
  input.local = input.local.detach().requires_grad_(options.records && options.input_gradients);
  input.step = options.step;
  input.step->training = options.trains;
  if (options.input_gradients) input_ = input.local;  // else what backward reads of it may be another copy, with halos
  output_ = network.forward(input);
}

Pass::PartOfLoss Pass::part_of_loss(const Loss& loss, const at::Tensor& target, const at::Tensor& weights) const {
  const at::AutoGradMode records(options_.records);
  at::Tensor difference = output_->local - target;
  if (const Normaliser* last = network_.output_normaliser()) difference = last->scaled(difference);
  const at::Tensor each = loss(difference);
  const at::Tensor sum = (weights.defined() ? each * weights : each).sum(at::kDouble);
  const double weight =
      weights.defined() ? weights.expand_as(each).sum(at::kDouble).item<double>() : static_cast<double>(each.numel());
  return {sum, {sum.item<double>(), weight}};
}

double Pass::set_loss(const PartOfLoss& part) {
  const at::AutoGradMode records(options_.records);
  const auto [sum, weight] = part.sums;
  require(weight > 0, "weights: expected a sum above 0 over all ranks, got ", weight);
  loss_ = part.differences / weight;
  return sum / weight;
}

void Pass::check_backward(bool has_output_gradient) const {
  require(options_.records, "backward: the pass was an inference, which keeps nothing for it");
  require(!has_gone_back_, "backward: this pass has gone back already");
  require(has_output_gradient || loss_.defined(), "backward: expected a loss before it, or gradients of the outputs");
}

void Pass::backward(const std::optional<at::Tensor>& output_gradient) {
  check_backward(output_gradient.has_value());
  has_gone_back_ = true;
  const at::AutoGradMode records(true);
  const at::Tensor& from = output_gradient ? output_->local : loss_;
  if (from.requires_grad())
    from.backward(output_gradient.value_or(at::Tensor()));  // otherwise nothing before it is trained
  output_->local = output_->local.detach();
  loss_.reset();
}

at::Tensor Pass::input_gradient() const {
  require(options_.input_gradients, "backward: forward was not asked for the inputs' gradients");
  require(has_gone_back_, "the inputs have no gradients before backward");
  return input_.grad();
}

}  // namespace adjoin::insitu
