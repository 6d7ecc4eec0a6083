#include "adjoin/nn/distributed/group_mean.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "adjoin/base/error.hpp"

namespace adjoin::nn {
namespace {

constexpr int64_t kChannels = 1;

/// The group of each channel of a part, in the part's order.
std::vector<int64_t> groups_of_channels(const Split& channels, int part, int64_t in_group) {
  std::vector<int64_t> groups;
  for (const Range& range : channels.ranges(part))
    for (int64_t channel = range.begin; channel < range.end; ++channel) groups.push_back(channel / in_group);
  return groups;
}

/// How the groups are split if each has all its channels in one part; none where a cut goes through a group.
std::optional<Split> whole_groups(const Split& channels, int64_t groups) {
  std::vector<std::vector<Range>> parts(static_cast<size_t>(channels.parts()));
  int64_t found = 0;
  for (int part = 0; part < channels.parts(); ++part) {
    std::vector<int64_t> held = groups_of_channels(channels, part, channels.size() / groups);
    std::sort(held.begin(), held.end());
    held.erase(std::unique(held.begin(), held.end()), held.end());
    found += static_cast<int64_t>(held.size());
    for (const int64_t group : held) parts[static_cast<size_t>(part)].push_back({group, group + 1});
  }
  if (found != groups) return std::nullopt;
  return Split::of_ranges(std::move(parts), groups, kChannels);
}

/// The layout of the sums [batch, groups], with `kind` along the axes over which they are taken.
Layout group_sums(const Layout& x, int64_t groups, const std::optional<Split>& whole, Kind kind) {
  std::map<std::string, Kind> kinds = x.kinds();
  std::vector<Layout::Cut> cuts{x.cuts()[0]};
  for (int64_t dim = kChannels; dim < x.dims(); ++dim) {
    const std::vector<std::string>& axes = x.cuts()[static_cast<size_t>(dim)].axes;
    if (dim == kChannels && whole)
      cuts.push_back({*whole, axes});
    else
      for (const std::string& axis : axes) kinds[axis] = kind;
  }
  return Layout(x.grid(), {x.shape()[0], groups}, std::move(cuts), std::move(kinds));
}

Move sum_of_groups(const Layout& x, int64_t groups, const Grid& grid) {
  require(x.is_exact() && x.axes(Kind::partial).empty(),
          [&] { return "mean: expected exact splits and no axis that is partial, got " + x.to_string(); });
  const std::optional<Split> whole = whole_groups(x.split(kChannels), groups);
  return Move(group_sums(x, groups, whole, Kind::partial), group_sums(x, groups, whole, Kind::copied), grid);
}

}  // namespace

GroupMean::GroupMean(const Layout& x, int64_t groups, const Grid& grid) : sum_(sum_of_groups(x, groups, grid)) {
  const int64_t in_group = x.shape()[kChannels] / groups;
  count_ = in_group;
  for (int64_t dim = kChannels + 1; dim < x.dims(); ++dim) count_ *= x.shape()[static_cast<size_t>(dim)];
  const auto cell = x.grid().cell_of(grid.world().rank());
  if (!cell) return;
  std::vector<int64_t> place(static_cast<size_t>(groups), 0);  // for each group, its place among the sums here
  const Split& sums = sum_.from().split(kChannels);
  for (const Range& range : sums.ranges(sum_.from().parts_of(*cell)[kChannels]))
    for (int64_t group = range.begin; group < range.end; ++group) place[static_cast<size_t>(group)] = groups_here_++;
  std::vector<int64_t> groups_here = groups_of_channels(x.split(kChannels), x.parts_of(*cell)[kChannels], in_group);
  for (int64_t& group : groups_here) group = place[static_cast<size_t>(group)];
  group_of_ = at::tensor(groups_here, at::kLong);
}

at::Tensor GroupMean::operator()(const at::Tensor& x) const {
  if (!group_of_.defined()) return sum_(x);
  const at::Tensor group_of = group_of_.to(x.device());
  const at::Tensor of_channels = x.unsqueeze(-1).flatten(kChannels + 1).sum(-1);
  const at::Tensor sums = at::zeros({x.size(0), groups_here_}, x.options().requires_grad(false))
                              .index_add(kChannels, group_of, of_channels);
  at::Tensor means = sum_(sums).index_select(kChannels, group_of) / static_cast<double>(count_);
  while (means.dim() < x.dim()) means = means.unsqueeze(-1);
  return means;
}

}  // namespace adjoin::nn
