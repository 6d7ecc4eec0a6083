#include "adjoin/partition/halo_plan.hpp"

#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

void check_count(const std::vector<Window>& windows, size_t dims) {
  require(windows.size() == dims, [&] {
    return "windows: expected one for each of " + std::to_string(dims) + " dims, got " + std::to_string(windows.size());
  });
}

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

HaloPlan plan_halo(const Layout& inputs, const std::vector<Window>& windows, const Edges& edges) {
  check_count(windows, inputs.shape().size());
  return plan_halo(inputs.shape(), layout_of_outputs(inputs, windows), windows, edges);
}

HaloPlan plan_halo(const std::vector<int64_t>& inputs, const Layout& outputs, std::vector<Window> windows,
                   const Edges& edges) {
  return plan_halo(inputs, outputs, std::move(windows), std::vector<Edges>(inputs.size(), edges));
}

HaloPlan plan_halo(const std::vector<int64_t>& inputs, const Layout& outputs, std::vector<Window> windows,
                   std::vector<Edges> edges) {
  edges.resize(inputs.size());
  check_count(windows, inputs.size());
  check_count(windows, outputs.shape().size());
  std::vector<Halo> halos;
  std::vector<Layout::Cut> cuts;
  for (size_t d = 0; d < inputs.size(); ++d) {
    halos.push_back(halo_of(windows[d], inputs[d], outputs.split(static_cast<int64_t>(d)), edges[d]));
    cuts.push_back({halos[d].fetched, outputs.cuts()[d].axes});
  }
  return {outputs, std::move(windows), std::move(halos),
          Layout(outputs.grid(), inputs, std::move(cuts), outputs.kinds())};
}

}  // namespace adjoin
