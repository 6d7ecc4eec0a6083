#include "adjoin/insitu/pass.hpp"

#include <ATen/ATen.h>

#include "adjoin/base/error.hpp"
#include "adjoin/insitu/need.hpp"
#include "adjoin/insitu/normaliser.hpp"

namespace adjoin::insitu {
namespace {

DistributedTensor run(Network& network, const at::Tensor& input, int64_t batch, const Pass::Options& options) {
  const at::AutoGradMode records(options.records);
  network.train(options.trains);
  Step step = options.step;
  step.training = options.trains;
  return network.forward({input, network.input_layout(batch), network.blocks().grid(), step});
}

at::Tensor losses(const Loss& loss, const at::Tensor& difference) {
  if (loss.kind == Loss::Kind::mae) return difference.abs();
  if (loss.kind == Loss::Kind::mse) return difference.square();
  return at::huber_loss(difference, at::zeros_like(difference), at::Reduction::None, loss.delta);
}

}  // namespace

Loss Loss::named(const std::string& name, double delta) {
  need(delta > 0, "loss: expected a delta above 0, got ", delta);
  if (name == "mse") return {Kind::mse, delta};
  if (name == "mae") return {Kind::mae, delta};
  need(name == "huber", "loss: expected mse, mae or huber, got '", name.substr(0, 60), "'");
  return {Kind::huber, delta};
}

Pass::Pass(Network& network, const at::Tensor& inputs, int64_t batch, const Options& options)
    : network_(network),
      options_(options),
      input_(inputs.detach().requires_grad_(options.records && options.input_gradients)),
      output_(run(network, input_, batch, options_)) {
  if (!options.input_gradients) input_.reset();  // what backward reads of it may be another copy, with halos
}

Pass::Sums Pass::sums(const Loss& loss, const at::Tensor& target, const at::Tensor& weights) const {
  const at::AutoGradMode records(options_.records);
  at::Tensor difference = output_.local - target;
  if (const Normaliser* last = network_.output_normaliser()) difference = last->scaled(difference);
  const at::Tensor each = losses(loss, difference);
  if (!weights.defined()) return {each.sum(at::kDouble), static_cast<double>(each.numel())};
  return {(each * weights).sum(at::kDouble), weights.expand_as(each).sum(at::kDouble).item<double>()};
}

void Pass::set_loss(const Sums& sums, double weight) {
  const at::AutoGradMode records(options_.records);
  loss_ = sums.of_differences / weight;
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
  output_gradient ? output_.local.backward(*output_gradient) : loss_.backward();
  output_.local = output_.local.detach();
  loss_.reset();
}

at::Tensor Pass::input_gradient() const {
  require(options_.input_gradients, "backward: forward was not asked for the inputs' gradients");
  require(has_gone_back_, "the inputs have no gradients before backward");
  return input_.grad();
}

}  // namespace adjoin::insitu
