#include "adjoin/movement/halo.hpp"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

namespace adjoin {
namespace {

std::vector<int> parts_on(const Layout& layout, int rank) {
  const auto cell = layout.grid().cell_of(rank);
  return cell ? layout.parts_of(*cell) : std::vector<int>{};
}

at::Tensor indices_of(const std::vector<Places>& order) {
  std::vector<int64_t> indices;
  for (const Places& places : order)
    for (int64_t i = 0; i < places.count; ++i) indices.push_back(places.begin + i * places.step);
  return at::tensor(indices, at::kLong);
}

}  // namespace

HaloExchange::HaloExchange(const Layout& layout, const std::vector<Window>& windows, Padding padding, const Grid& grid)
    : HaloExchange(layout, plan_halo(layout, windows, padding), grid) {}

HaloExchange::HaloExchange(const Layout& layout, HaloPlan plan, const Grid& grid, double fill)
    : plan_(std::move(plan)),
      fill_(fill),
      parts_(parts_on(plan_.fetched, grid.world().rank())),
      fetch_(layout, plan_.fetched, grid) {
  for (size_t dim = 0; dim < parts_.size(); ++dim) {
    const std::vector<Places>& order = plan_.halos[dim].order[static_cast<size_t>(parts_[dim])];
    order_.push_back(order.empty() ? at::Tensor() : indices_of(order));
  }
}

at::Tensor HaloExchange::operator()(const at::Tensor& x) const {
  at::Tensor y = fetch_(x);
  if (parts_.empty()) return y;
  std::vector<int64_t> pads;  // as LibTorch wants them: the last dim first
  for (size_t dim = parts_.size(); dim-- > 0;) {
    const auto part = static_cast<size_t>(parts_[dim]);
    if (order_[dim].defined()) y = at::index_select(y, static_cast<int64_t>(dim), order_[dim]);
    const Pads pad = plan_.windows[dim].transposed ? Pads{} : plan_.halos[dim].pads[part];
    pads.insert(pads.end(), {pad.left, pad.right});
  }
  const bool is_padded = std::any_of(pads.begin(), pads.end(), [](int64_t n) { return n != 0; });
  return is_padded ? at::constant_pad_nd(y, pads, fill_) : y;
}

at::Tensor halo_exchange(const at::Tensor& x, const Layout& layout, const std::vector<Window>& windows, Padding padding,
                         const Grid& grid) {
  return HaloExchange(layout, windows, padding, grid)(x);
}

}  // namespace adjoin
