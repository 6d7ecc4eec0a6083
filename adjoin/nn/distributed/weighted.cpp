#include "adjoin/nn/distributed/weighted.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin::nn {
namespace {

using Axes = std::vector<std::string>;

bool has(const Axes& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

/// The axes of rows that have more than one worker, without those along which the input stays copied.
Axes axes_to_share(const WorkDivision& division, const Layout& input) {
  Axes axes;
  for (const std::string& axis : division.rows)
    if (division.grid.axis_size(axis) > 1 && !(input.grid() == division.grid && input.kind(axis) == Kind::copied))
      axes.push_back(axis);
  return axes;
}

/// The cuts of a layout's row dims over axes of rows; none if these do not use all axes of `needed`.
std::optional<std::vector<Layout::Cut>> cuts_like(const Layout& layout, bool is_output, const WorkDivision& division,
                                                  const std::vector<RowDim>& dims, Axes needed) {
  if (layout.grid() != division.grid) return std::nullopt;
  std::vector<Layout::Cut> cuts;
  for (const auto& [dim, window] : dims) {
    if (dim >= layout.dims()) return std::nullopt;
    Layout::Cut cut = layout.cuts()[static_cast<size_t>(dim)];
    const bool is_shared = std::all_of(cut.axes.begin(), cut.axes.end(),
                                       [&](const std::string& axis) { return has(division.rows, axis); });
    if (cut.axes.empty() || !is_shared) continue;
    if (!is_output) cut.split = outputs_split(window, cut.split);
    if (!window.is_pointwise() && !parts_are_ranges(cut.split)) return std::nullopt;
    for (const std::string& axis : cut.axes) std::erase(needed, axis);
    cuts.push_back(std::move(cut));
  }
  return needed.empty() ? std::optional(cuts) : std::nullopt;
}

Layout::Cut balanced_rows(const WorkDivision& division, const std::vector<RowDim>& dims, const Layout& input,
                          const Axes& axes) {
  require(!dims.empty(), [&] {
    return "expected an input with a dim to cut over the axes along which the weight is copied (" + joined(axes) + ")";
  });
  int parts = 1;
  for (const std::string& axis : axes) parts *= division.grid.axis_size(axis);
  const auto& [dim, window] = dims.front();
  return {Split::balanced(outputs_of(window, input.shape()[static_cast<size_t>(dim)]), parts, dim), axes};
}

}  // namespace

WorkDivision division_of(const std::string& layer, const Layout& weight, int64_t out_dim, int64_t in_dim) {
  for (int64_t dim = 0; dim < weight.dims(); ++dim)
    require(dim == out_dim || dim == in_dim || weight.split(dim).parts() == 1, [&] {
      return layer + ": expected a weight that is cut only along its features (dims " + std::to_string(out_dim) +
             " and " + std::to_string(in_dim) + "), got " + weight.to_string();
    });
  check_piece("weight", weight);
  return {weight.grid(), weight.cuts()[static_cast<size_t>(out_dim)].axes,
          weight.cuts()[static_cast<size_t>(in_dim)].axes, weight.axes(Kind::copied)};
}

Layout bias_layout(const Layout& weight, const WorkDivision& division, const Split& outputs) {
  int inputs = 1;
  for (const std::string& axis : division.in) inputs *= division.grid.axis_size(axis);
  std::vector<std::vector<Range>> parts(static_cast<size_t>(inputs * outputs.parts()));
  for (int part = 0; part < outputs.parts(); ++part) {
    const auto ranges = outputs.ranges(part);
    parts[static_cast<size_t>(part)].assign(ranges.begin(), ranges.end());
  }
  Axes axes = division.in;
  axes.insert(axes.end(), division.out.begin(), division.out.end());
  std::map<std::string, Kind> kinds = weight.kinds();
  return Layout(division.grid, {outputs.size()}, {{Split::of_ranges(std::move(parts), outputs.size(), 0), axes}},
                std::move(kinds));
}

RowCuts cut_rows(const WorkDivision& division, const std::vector<RowDim>& dims, const Layout& input,
                 const std::optional<Layout>& wanted) {
  const Axes needed = axes_to_share(division, input);
  std::optional<std::vector<Layout::Cut>> cuts;
  if (wanted) cuts = cuts_like(*wanted, /*is_output=*/true, division, dims, needed);
  if (!cuts) cuts = cuts_like(input, /*is_output=*/false, division, dims, needed);
  if (!cuts) {
    cuts.emplace();
    if (!needed.empty()) cuts->push_back(balanced_rows(division, dims, input, needed));
  }
  RowCuts rows{std::move(*cuts), {}};
  for (const std::string& axis : division.rows) {
    const bool cuts_a_row =
        std::any_of(rows.cuts.begin(), rows.cuts.end(), [&](const auto& cut) { return has(cut.axes, axis); });
    if (!cuts_a_row && division.grid.axis_size(axis) > 1) rows.kinds[axis] = Kind::copied;  // as the input
  }
  return rows;
}

Layout work_layout(const WorkDivision& division, const RowCuts& rows, const std::vector<int64_t>& shape,
                   Layout::Cut features, const Axes& other_axes, Kind kind) {
  std::map<std::string, Kind> kinds = rows.kinds;
  for (const std::string& axis : other_axes)
    if (!has(features.axes, axis)) kinds[axis] = kind;
  std::vector<Layout::Cut> cuts = rows.cuts;
  cuts.push_back(std::move(features));
  return Layout(division.grid, shape, std::move(cuts), std::move(kinds));
}

}  // namespace adjoin::nn
