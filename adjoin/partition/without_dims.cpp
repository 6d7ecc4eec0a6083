#include "adjoin/partition/without_dims.hpp"

#include <algorithm>

namespace adjoin {

Layout without_dims(const Layout& x, const std::vector<int64_t>& dims, Kind kind, bool keeps_dims) {
  std::vector<int64_t> shape;
  std::vector<Layout::Cut> cuts;
  std::map<std::string, Kind> kinds = x.kinds();
  for (const auto& [split, axes] : x.cuts()) {
    if (std::ranges::find(dims, split.dim()) == dims.end()) {
      cuts.push_back({split.along(static_cast<int64_t>(shape.size())), axes});
      shape.push_back(split.size());
      continue;
    }
    if (keeps_dims) shape.push_back(1);
    for (const std::string& axis : axes) kinds[axis] = kind;
  }
  return Layout(x.grid(), std::move(shape), std::move(cuts), std::move(kinds));
}

}  // namespace adjoin
