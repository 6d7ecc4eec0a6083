#include "adjoin/nn/distributed/pad.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"

namespace adjoin::nn {
namespace {

/// The inputs of the outputs that are no padding, and how much padding is before and after them.
struct Cropped {
  Range inputs;
  Pads pads;
};
Cropped cropped(const Pads& pads, int64_t inputs, Range outputs) {
  const auto within = [&](int64_t output) { return std::clamp<int64_t>(output - pads.left, 0, inputs); };
  const Range here{within(outputs.begin), within(outputs.end)};
  if (here.size() == 0) return {here, {outputs.size(), 0}};
  return {here, {here.begin + pads.left - outputs.begin, outputs.end - pads.left - here.end}};
}

/// What is read for a constant padding, or a crop.
HaloPlan plan_constant(const PadGeometry& geometry, const std::vector<int64_t>& inputs, const Layout& made,
                       size_t space) {
  const auto of = [&](size_t dim, Range outputs) { return cropped(geometry.pads[dim - space], inputs[dim], outputs); };
  HaloPlan plan = plan_needed(inputs, made, space, [&](size_t dim, Range outputs) { return of(dim, outputs).inputs; });
  for (size_t dim = space; dim < inputs.size(); ++dim) {
    const Split& outputs = made.split(static_cast<int64_t>(dim));
    for (int part = 0; part < outputs.parts(); ++part) {
      const Range range = *contiguous_range(outputs, part);
      if (range.size() > 0) plan.halos[dim].pads[static_cast<size_t>(part)] = of(dim, range).pads;
    }
  }
  return plan;
}

Route route_of(const PadGeometry& geometry, const Layout& input, const LayoutRule& rule, const Grid& grid) {
  const size_t space = dims_before_space(input, geometry.pads.size());
  std::vector<int64_t> shape = input.shape();
  std::vector<Window> windows(shape.size());
  for (size_t dim = space; dim < shape.size(); ++dim) {
    const Pads& pads = geometry.pads[dim - space];
    require(shape[dim] >= 1, "expected at least 1 input in each dim of space");
    require(geometry.mode == Padding::zeros || (pads.left >= 0 && pads.right >= 0),
            [&] { return "expected paddings of at least 0, as only a constant padding crops"; });
    windows[dim] = {.before = pads.left, .after = pads.right};
    shape[dim] += pads.left + pads.right;
    require(shape[dim] >= 1, [&] {
      return "expected a crop that leaves at least 1 of the " + std::to_string(input.shape()[dim]) + " inputs of dim " +
             std::to_string(dim);
    });
  }
  const auto [made, output] = output_place(input, shape, space, rule);
  HaloPlan read = geometry.mode == Padding::zeros ? plan_constant(geometry, input.shape(), made, space)
                                                  : plan_halo(input.shape(), made, windows, geometry.mode);
  const Route::Kernel kernel = [](const at::Tensor& x, at::TensorList) { return x; };
  return Route(input, {std::move(read), made, output, kernel, geometry.value}, grid);
}

}  // namespace

std::function<Route(const Layout& input)> plan_of(PadGeometry geometry, const Grid& grid, LayoutRule output) {
  return [=, geometry = std::move(geometry), output = std::move(output)](const Layout& input) {
    return route_of(geometry, input, output, grid);
  };
}

}  // namespace adjoin::nn
