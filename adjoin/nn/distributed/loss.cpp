#include "adjoin/nn/distributed/loss.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/kl_div.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/poisson_nll_loss.h>
#include <ATen/ops/smooth_l1_loss.h>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/held.hpp"
#include "adjoin/nn/distributed/linked.hpp"
#include "adjoin/nn/distributed/widened.hpp"

namespace adjoin::nn {
namespace {

constexpr int64_t kEach = at::Reduction::None;

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// Returns the number if it is right, else throws.
double checked(double number, bool is_right, const std::string& expected) {
  require(is_right, [&] { return expected + ", got " + std::to_string(number); });
  return number;
}

double divisor_of(LossReduction reduction, const std::vector<int64_t>& shape) {
  if (reduction == LossReduction::batch_mean) return shape.empty() ? 1 : static_cast<double>(shape[0]);
  double count = 1;
  if (reduction == LossReduction::mean)
    for (const int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

}  // namespace

ElementLossGeometry geometry_of(const L1LossOptions& options) {
  return {"L1Loss", reduction_of(options.reduction()),
          [](const at::Tensor& x, const at::Tensor& target, at::TensorList) { return at::l1_loss(x, target, kEach); }};
}

ElementLossGeometry geometry_of(const MSELossOptions& options) {
  return {"MSELoss", reduction_of(options.reduction()),
          [](const at::Tensor& x, const at::Tensor& target, at::TensorList) { return at::mse_loss(x, target, kEach); }};
}

ElementLossGeometry geometry_of(const SmoothL1LossOptions& options) {
  const double given = options.beta().value_or(1);
  return {"SmoothL1Loss", reduction_of(options.reduction()),
          [beta = checked(given, given >= 0, "SmoothL1Loss: expected a beta of at least 0")](
              const at::Tensor& x, const at::Tensor& target, at::TensorList) {
            return at::smooth_l1_loss(x, target, kEach, beta);
          }};
}

ElementLossGeometry geometry_of(const HuberLossOptions& options) {
  return {"HuberLoss", reduction_of(options.reduction()),
          [delta = checked(options.delta(), options.delta() > 0, "HuberLoss: expected a delta above 0")](
              const at::Tensor& x, const at::Tensor& target, at::TensorList) {
            return at::huber_loss(x, target, kEach, delta);
          }};
}

ElementLossGeometry geometry_of(const PoissonNLLLossOptions& options) {
  return {"PoissonNLLLoss", reduction_of(options.reduction()),
          [options](const at::Tensor& x, const at::Tensor& target, at::TensorList) {
            return at::poisson_nll_loss(x, target, options.log_input(), options.full(), options.eps(), kEach);
          }};
}

ElementLossGeometry geometry_of(const BCELossOptions& options) {
  return {"BCELoss",
          reduction_of(options.reduction()),
          [](const at::Tensor& x, const at::Tensor& target, at::TensorList weights) {
            return at::binary_cross_entropy(x, target, if_defined(weights[0]), kEach);
          },
          {options.weight()}};
}

ElementLossGeometry geometry_of(const BCEWithLogitsLossOptions& options) {
  return {"BCEWithLogitsLoss",
          reduction_of(options.reduction()),
          [](const at::Tensor& x, const at::Tensor& target, at::TensorList weights) {
            return at::binary_cross_entropy_with_logits(x, target, if_defined(weights[0]), if_defined(weights[1]),
                                                        kEach);
          },
          {options.weight(), options.pos_weight()}};
}

ElementLossGeometry geometry_of(const KLDivLossOptions& options) {
  return {"KLDivLoss", reduction_of(options.reduction()),
          [in_logs = options.log_target()](const at::Tensor& x, const at::Tensor& target, at::TensorList) {
            return at::kl_div(x, target, kEach, in_logs);
          }};
}

ElementLossImpl::ElementLossImpl(ElementLossGeometry geometry, const Grid& grid, LayoutRule output)
    : geometry_(std::move(geometry)), output_(std::move(output)), prepared_(geometry_.name, grid) {}

ElementLossImpl::Prepared ElementLossImpl::prepare(const Layout& input) const {
  const Grid& grid = prepared_.grid();
  const Layout x = summed(input);
  const auto cell = x.grid().cell_of(grid.world().rank());
  Prepared prepared{.x = x,
                    .read = Move(input, x, grid),
                    .is_here = cell.has_value(),
                    .links = leaves_some_out(x, grid),
                    .weights = {},
                    .each = {},
                    .total = {},
                    .divisor = divisor_of(geometry_.reduction, x.shape()),
                    .targets = PerLayout<Move>(geometry_.name, grid, "target")};
  for (const at::Tensor& weight : geometry_.weights)  // cell 0 outside the grid, so that all refuse a wrong weight
    prepared.weights.push_back(weight.defined() ? widened(broadcast_piece(weight, x, cell.value_or(0))) : at::Tensor());
  if (geometry_.reduction == LossReduction::none)
    prepared.each.emplace(x, output_ ? output_(x.shape()) : x, grid);
  else
    prepared.total.emplace(x, std::vector<int64_t>(), output_ ? output_({}) : Layout(grid.shape(), {}), grid);
  return prepared;
}

DistributedTensor ElementLossImpl::forward(const DistributedTensor& x, const DistributedTensor& target) {
  prepared_.check_type(x);
  check_type(geometry_.name + ", target", target);
  Prepared& prepared = prepared_.of(x.layout, [this](const Layout& input) { return prepare(input); });
  const Move& to_x = prepared.targets.of(target.layout, [&](const Layout& layout) {
    require(layout.shape() == prepared.x.shape(),
            [&] { return "expected a target of the input's shape, " + shape_text(prepared.x.shape()); });
    return Move(layout, prepared.x, prepared_.grid());
  });
  const at::Tensor here = widened(prepared.read(x.local)), wanted = widened(to_x(target.local));
  const at::ScalarType type = x.local.scalar_type();
  const at::Tensor own = prepared.is_here ? losses_of(here, wanted, prepared) : here;
  const at::Tensor losses = prepared.links ? linked(own, {here, wanted}) : own;
  if (prepared.each) return {(*prepared.each)(losses.to(type)), prepared.each->to(), x.grid};
  const double divisor = prepared.divisor;
  // Of no elements as LibTorch's mean: NaN, with second derivatives of 0, where a division would have NaN.
  const at::Tensor summand = !prepared.is_here ? losses : divisor == 0 ? losses.mean() : losses.sum();
  const at::Tensor sum = (*prepared.total)(summand);
  return {(divisor == 0 ? sum : sum / divisor).to(type), prepared.total->layout(), x.grid};
}

at::Tensor ElementLossImpl::losses_of(const at::Tensor& x, const at::Tensor& target, const Prepared& prepared) const {
  try {
    return geometry_.losses(x, target, prepared.weights);
  } catch (const c10::Error& error) {  // values for which the loss is not defined
    throw InvalidArgument(geometry_.name + ": rank " + std::to_string(prepared_.grid().world().rank()) + ": " +
                          error.what_without_backtrace());
  }
}

}  // namespace adjoin::nn
