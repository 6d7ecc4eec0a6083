#include "adjoin/nn/distributed/total.hpp"

#include <algorithm>

namespace adjoin::nn {
namespace {

/// The layout of the summands: of several copies the first counts.
Layout summands_of(const Layout& part, std::vector<int64_t> shape) {
  std::map<std::string, Kind> kinds = part.kinds();
  for (const Layout::Cut& cut : part.cuts())
    for (const std::string& axis : cut.axes) kinds[axis] = Kind::partial;
  return first_copy(Layout(part.grid(), std::move(shape), {}, std::move(kinds)));
}

}  // namespace

Total::Total(const Layout& part, std::vector<int64_t> shape, const Layout& to, const Grid& grid)
    : sum_(summands_of(part, std::move(shape)), to, grid) {
  counts_ = sum_.from().grid().cell_of(grid.world().rank()).has_value();
}

at::Tensor Total::operator()(const at::Tensor& summand) const {
  return sum_(counts_ ? summand : summand.flatten().narrow(0, 0, 0));
}

Layout on_all_workers(const GridShape& preferred, const Grid& grid, const std::vector<int64_t>& shape) {
  const std::vector<int>& workers = grid.workers();
  if (std::ranges::is_permutation(preferred.ranks(), workers)) return Layout(preferred, shape);
  return Layout(GridShape({{"workers", static_cast<int>(workers.size())}}, workers), shape);
}

}  // namespace adjoin::nn
