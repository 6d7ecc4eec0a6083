#include "adjoin/partition/halo_plan.hpp"

#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

Layout layout_of_outputs(const Layout& inputs, const std::vector<Window>& windows) {
  std::vector<int64_t> shape;
  std::vector<Layout::Cut> cuts;
  for (int64_t dim = 0; dim < inputs.dims(); ++dim) {
    const Split outputs = outputs_split(windows[static_cast<size_t>(dim)], inputs.split(dim));
    shape.push_back(outputs.size());
    if (const auto& axes = inputs.cuts()[static_cast<size_t>(dim)].axes; !axes.empty()) cuts.push_back({outputs, axes});
  }
  return Layout(inputs.grid(), std::move(shape), std::move(cuts), inputs.kinds());
}

}  // namespace

HaloPlan plan_halo(const Layout& inputs, const std::vector<Window>& windows, Padding padding) {
  require(static_cast<int64_t>(windows.size()) == inputs.dims(), [&] {
    return "windows: expected one for each of " + std::to_string(inputs.dims()) + " dims, got " +
           std::to_string(windows.size());
  });
  HaloPlan plan{layout_of_outputs(inputs, windows), {}, inputs};
  for (int64_t dim = 0; dim < inputs.dims(); ++dim) {
    const auto d = static_cast<size_t>(dim);
    plan.halos.push_back(halo_of(windows[d], inputs.shape()[d], plan.outputs.split(dim), padding));
    plan.fetched = plan.fetched.with_cut({plan.halos[d].fetched, inputs.cuts()[d].axes});
  }
  return plan;
}

}  // namespace adjoin
