#include "adjoin/parallel/dim_choices.hpp"

#include <functional>
#include <numeric>

namespace adjoin::parallel {

DimChoices::DimChoices(const rules::Noted& noted) {
  for (const rules::NotedCall& call : noted.calls) {
    const std::string& name = call.handle.schema().name();
    if (call.operands.size() != 1 || call.results.empty()) continue;
    const std::vector<int64_t>&from = call.operands[0].shape, &to = call.results[0].shape;
    if (name == "aten::view" || name == "aten::reshape" || name == "aten::_unsafe_view" || name == "aten::flatten" ||
        name == "aten::unflatten") {
      add_view(from, to);
      add_view(to, from);
    }
    if (name == "aten::split" || name == "aten::split_with_sizes")
      for (size_t dim = 0; dim < from.size(); ++dim)
        if (from[dim] != to[dim] && from[dim] == to[dim] * std::ssize(call.results))
          parts_[from[dim]].insert(std::ssize(call.results));
  }
}

void DimChoices::add_view(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  for (size_t i = 0, j = 0; i < from.size() && j < to.size(); ++i) {
    const size_t first = j;
    int64_t size = to[j++];
    while (j < to.size() && size < from[i]) size *= to[j++];
    if (size != from[i]) return;  // several dims become several
    if (j - first < 2) continue;
    const auto behind = [&](size_t dim) {
      return std::accumulate(to.begin() + static_cast<ptrdiff_t>(dim), to.begin() + static_cast<ptrdiff_t>(j),
                             int64_t{1}, std::multiplies<>());
    };
    units_[size].insert(behind(first + 1));
    if (j - first < 3) continue;
    parts_[size].insert(to[first]);
    units_[size / to[first]].insert(behind(first + 2));
  }
}

std::vector<DimChoice> DimChoices::of(int64_t size) const {
  std::vector<DimChoice> choices;
  const auto add_units = [&](int64_t parts) {
    if (const auto units = units_.find(size / parts); units != units_.end())
      for (const int64_t unit : units->second)
        if (unit > 1 && unit < size / parts) choices.push_back({parts, unit});
  };
  add_units(1);
  choices.push_back({});
  if (const auto parts = parts_.find(size); parts != parts_.end())
    for (const int64_t count : parts->second) {
      if (count < 2 || count >= size) continue;
      add_units(count);
      choices.push_back({count, 1});
    }
  return choices;
}

}  // namespace adjoin::parallel
