#include "adjoin/nn/distributed/linear.hpp"

#include <ATen/ops/linear.h>

#include <cmath>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/linked.hpp"
#include "adjoin/nn/linear.hpp"

namespace adjoin::nn {
namespace {

std::string name_of(const LinearOptions& options) {
  return "Linear(" + std::to_string(options.in_features()) + ", " + std::to_string(options.out_features()) + ")";
}

std::vector<int64_t> weight_shape(const LinearOptions& options) {
  require(options.in_features() >= 1 && options.out_features() >= 1,
          [&] { return name_of(options) + ": expected at least 1 feature in and out"; });
  return {options.out_features(), options.in_features()};
}

at::Tensor product(const at::Tensor& x, at::TensorList parameters) {
  const at::Tensor &weight = parameters[0], &bias = parameters[1];
  const bool has_bias = bias.defined() && bias.numel() > 0;
  return at::linear(x, weight, has_bias ? std::optional(bias) : std::nullopt);
}

}  // namespace

LinearImpl::LinearImpl(const LinearOptions& o, const LayerLayouts& placement, const Grid& grid)
    : options(o),
      weight_layout_(
          weight_layout(name_of(o), "a weight of shape ", placement, layout_copied_on(grid.shape(), weight_shape(o)))),
      division_(division_of(name_of(o), weight_layout_, /*out_dim=*/0, /*in_dim=*/1)),
      output_(placement.output),
      routes_(name_of(o), grid) {
  const double deviation = 1 / std::sqrt(3.0 * static_cast<double>(o.in_features()));
  register_piece(weight_, "weight", {weight_layout_, grid, Initial::normal(deviation), {o.out_features()}},
                 placement.tensor);
  if (o.bias())
    register_piece(bias_, "bias",
                   {bias_layout(weight_layout_, division_, weight_layout_.split(0)), grid, Initial::zeros()},
                   placement.tensor);
}

DistributedTensor LinearImpl::forward(const DistributedTensor& x) {
  routes_.check_type(x, weight_);
  const Route& route = routes_.of(x.layout, [this](const Layout& input) { return plan(input); });
  // In the product's type already here, which is then also that of a worker that computes nothing.
  return route(x, {as_in_product(weight_), as_in_product(bias_)});
}

Route LinearImpl::plan(const Layout& input) const {
  require(input.dims() >= 1 && input.shape().back() == options.in_features(),
          [&] { return "expected " + std::to_string(options.in_features()) + " features in the last dim"; });
  const int64_t last = input.dims() - 1;
  std::vector<int64_t> shape = input.shape();
  shape.back() = options.out_features();
  std::vector<RowDim> dims;
  for (int64_t dim = 0; dim < last; ++dim) dims.push_back({dim});
  std::optional<Layout> output;
  if (output_) output = output_(shape);

  const RowCuts rows = cut_rows(division_, dims, input, output);
  const Layout read = work_layout(division_, rows, input.shape(), {weight_layout_.split(1).along(last), division_.in},
                                  division_.out, Kind::copied);
  const Layout made = work_layout(division_, rows, shape, {weight_layout_.split(0).along(last), division_.out},
                                  division_.in, Kind::partial);
  const std::vector<Window> windows(input.shape().size());
  const bool links_bias = bias_.defined() && weight_layout_.split(1).parts() > 1;  // one of several workers adds it
  const auto kernel = [links_bias](const at::Tensor& x, at::TensorList parameters) {
    const at::Tensor y = product(x, parameters);
    return links_bias ? linked(y, {parameters[1]}) : y;
  };
  return Route(input,
               {plan_halo(input.shape(), read, windows, Padding::zeros), made, output ? *output : summed(made), kernel},
               routes_.grid());
}

}  // namespace adjoin::nn
