#include "adjoin/movement/halo.hpp"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

Layout layout_of_outputs(const Layout& inputs, const std::vector<Window>& windows) {
  require(static_cast<int64_t>(windows.size()) == inputs.dims(), [&] {
    return "halo_exchange: expected a window for each of " + std::to_string(inputs.dims()) + " dims, got " +
           std::to_string(windows.size());
  });
  std::vector<int64_t> shape;
  std::vector<Layout::Cut> cuts;
  for (int64_t dim = 0; dim < inputs.dims(); ++dim) {
    const Split outputs = outputs_split(windows[static_cast<size_t>(dim)], inputs.split(dim));
    shape.push_back(outputs.size());
    if (const auto& axes = inputs.cuts()[static_cast<size_t>(dim)].axes; !axes.empty()) cuts.push_back({outputs, axes});
  }
  std::map<std::string, Kind> kinds;
  for (const auto& axis : inputs.grid().axes())
    if (inputs.kind(axis.name) != Kind::split) kinds.emplace(axis.name, inputs.kind(axis.name));
  return Layout(inputs.grid(), std::move(shape), std::move(cuts), std::move(kinds));
}

std::vector<Halo> halos_of(const Layout& inputs, const Layout& outputs, const std::vector<Window>& windows,
                           Padding padding) {
  std::vector<Halo> halos;
  for (int64_t dim = 0; dim < inputs.dims(); ++dim)
    halos.push_back(halo_of(windows[static_cast<size_t>(dim)], inputs.shape()[static_cast<size_t>(dim)],
                            outputs.split(dim), padding));
  return halos;
}

/// What each worker fetches.
Layout fetched(const Layout& inputs, const std::vector<Halo>& halos) {
  Layout layout = inputs;
  for (const Halo& halo : halos)
    layout = layout.with_cut({halo.fetched, inputs.cuts()[static_cast<size_t>(halo.fetched.dim())].axes});
  return layout;
}

std::vector<int> parts_on(const Layout& layout, int rank) {
  const auto cell = layout.grid().cell_of(rank);
  return cell ? layout.parts_of(*cell) : std::vector<int>{};
}

}  // namespace

HaloExchange::HaloExchange(const Layout& layout, std::vector<Window> windows, Padding padding, const Grid& grid)
    : padding_(padding),
      windows_(std::move(windows)),
      outputs_(layout_of_outputs(layout, windows_)),
      halos_(halos_of(layout, outputs_, windows_, padding_)),
      parts_(parts_on(layout, grid.world().rank())),
      fetch_(layout, fetched(layout, halos_), grid) {}

at::Tensor HaloExchange::operator()(const at::Tensor& x) const {
  at::Tensor y = fetch_(x);
  if (parts_.empty()) return y;
  std::vector<int64_t> pads;  // as LibTorch wants them: the last dim first
  for (size_t dim = halos_.size(); dim-- > 0;) {
    const auto part = static_cast<size_t>(parts_[dim]);
    if (const auto& order = halos_[dim].order[part]; !order.empty())
      y = at::index_select(y, static_cast<int64_t>(dim), at::tensor(order, at::kLong));
    const Pads& pad = halos_[dim].pads[part];
    pads.insert(pads.end(), {windows_[dim].transposed ? 0 : pad.left, windows_[dim].transposed ? 0 : pad.right});
  }
  const bool is_padded = std::any_of(pads.begin(), pads.end(), [](int64_t n) { return n != 0; });
  return is_padded ? at::constant_pad_nd(y, pads) : y;
}

at::Tensor halo_exchange(const at::Tensor& x, const Layout& layout, const std::vector<Window>& windows, Padding padding,
                         const Grid& grid) {
  return HaloExchange(layout, windows, padding, grid)(x);
}

}  // namespace adjoin
