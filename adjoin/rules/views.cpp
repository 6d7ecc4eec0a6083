#include <ATen/InferSize.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "adjoin/rules/operation.hpp"

namespace adjoin::rules {
namespace {

int64_t product(const std::vector<int64_t>& sizes, size_t begin, size_t end) {
  return std::accumulate(sizes.begin() + static_cast<ptrdiff_t>(begin), sizes.begin() + static_cast<ptrdiff_t>(end),
                         int64_t{1}, std::multiplies<>());
}

// ---- view: dims that become other dims with the same elements in the same order.

/// Old dims [from, from_end) and new dims [to, to_end), of equal products.
struct Group {
  size_t from, from_end, to, to_end;
};

std::vector<Group> groups_of(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  std::vector<Group> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    Group group{i, i, j, j};
    int64_t a = i < from.size() ? from[i++] : 1, b = j < to.size() ? to[j++] : 1;
    while (a != b) (a < b ? a *= from[i++] : b *= to[j++]);
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

using Ranges = std::vector<Range>;

void append(Ranges& ranges, Range range) {
  if (range.size() == 0) return;
  if (!ranges.empty() && ranges.back().end == range.begin)
    ranges.back().end = range.end;
  else
    ranges.push_back(range);
}

/// The elements of a group's dims that a part holds, in the order of its piece; parts[i] of each dim.
Ranges flattened(const Layout& layout, const Group& group, const std::vector<int>& parts) {
  Ranges inner{{0, 1}};
  int64_t size = 1;
  for (size_t dim = group.from_end; dim-- > group.from;) {
    const Split& split = layout.cuts()[dim].split;
    Ranges outer;
    for (const Range& range : split.ranges(parts[dim - group.from])) {
      if (inner.size() == 1 && inner[0].size() == size) {
        append(outer, {range.begin * size, range.end * size});
        continue;
      }
      for (int64_t i = range.begin; i < range.end; ++i)
        for (const Range& r : inner) append(outer, {i * size + r.begin, i * size + r.end});
    }
    inner = std::move(outer);
    size *= split.size();
  }
  return inner;
}

/// The ranges of one dim, of which each index has `unit` elements and which is repeated `repeats` times, that give these elements;
/// none if no ranges do.
std::optional<Ranges> as_dim(const Ranges& elements, int64_t size, int64_t unit, int64_t repeats) {
  Ranges dim;
  const int64_t period = size * unit;
  for (const Range& range : elements) {
    if (range.begin >= period) break;
    const int64_t end = repeats > 1 ? std::min(range.end, period) : range.end;
    if (range.begin % unit != 0 || end % unit != 0) return std::nullopt;
    append(dim, {range.begin / unit, end / unit});
  }
  Ranges again;
  for (int64_t i = 0; i < repeats; ++i)
    for (const Range& range : dim) append(again, {i * period + range.begin * unit, i * period + range.end * unit});
  if (again != elements) return std::nullopt;
  return dim;
}

/// The cuts of a group's dims as one cut of one new dim. None where no new dim has them.
std::optional<Layout::Cut> as_one_cut(const Layout& layout, const Group& group, const std::vector<int64_t>& to) {
  std::vector<std::string> axes;
  std::vector<int> counts;
  int all = 1;
  for (size_t dim = group.from; dim < group.from_end; ++dim) {
    const Layout::Cut& cut = layout.cuts()[dim];
    axes.insert(axes.end(), cut.axes.begin(), cut.axes.end());
    counts.push_back(cut.split.parts());
    all *= counts.back();
  }
  std::vector<Ranges> elements;
  for (int part = 0; part < all; ++part) {
    std::vector<int> parts(counts.size());
    for (size_t i = counts.size(), rest = static_cast<size_t>(part); i-- > 0;) {
      parts[i] = static_cast<int>(rest) % counts[i];
      rest /= static_cast<size_t>(counts[i]);
    }
    elements.push_back(flattened(layout, group, parts));
  }
  for (size_t dim = group.to; dim < group.to_end; ++dim) {
    std::vector<Ranges> parts;
    for (const Ranges& part : elements)
      if (auto ranges = as_dim(part, to[dim], product(to, dim + 1, group.to_end), product(to, group.to, dim)))
        parts.push_back(std::move(*ranges));
    if (parts.size() == elements.size())
      return Layout::Cut{Split::of_ranges(std::move(parts), to[dim], static_cast<int64_t>(dim)), axes};
  }
  return std::nullopt;
}

/// A cut over several axes as a cut of the group's first new dim over the first of them and of a later dim over the others: what a
/// merge of two cut dims becomes when it is undone.
std::optional<std::vector<Layout::Cut>> as_two_cuts(const Layout& layout, const Group& group,
                                                    const std::vector<int64_t>& to) {
  if (group.from_end - group.from != 1 || group.to_end - group.to < 2) return std::nullopt;
  const Layout::Cut& cut = layout.cuts()[group.from];
  const int64_t unit = product(to, group.to + 1, group.to_end);
  for (size_t first = 1; first < cut.axes.size(); ++first) {
    int outer = 1;
    for (size_t i = 0; i < first; ++i) outer *= layout.grid().axis_size(cut.axes[i]);
    const int inner = cut.split.parts() / outer;
    for (size_t dim = group.to + 1; dim < group.to_end; ++dim) {
      const int64_t inner_unit = product(to, dim + 1, group.to_end), repeats = product(to, group.to + 1, dim);
      std::vector<Ranges> outer_parts(static_cast<size_t>(outer)), inner_parts(static_cast<size_t>(inner));
      bool fits = true;
      for (int part = 0; fits && part < cut.split.parts(); ++part) {
        const std::span<const Range> held = cut.split.ranges(part);
        Ranges indices, within;
        for (const Range& range : held)
          for (int64_t i = range.begin / unit; i * unit < range.end; ++i) append(indices, {i, i + 1});
        for (const Range& range : held)
          if (!indices.empty() && range.begin / unit == indices[0].begin)
            append(within, {range.begin % unit, std::min(range.end - indices[0].begin * unit, unit)});
        if (held.empty()) continue;
        auto& of_outer = outer_parts[static_cast<size_t>(part / inner)];
        auto& of_inner = inner_parts[static_cast<size_t>(part % inner)];
        const auto ranges = as_dim(within, to[dim], inner_unit, repeats);
        fits = ranges && (of_outer.empty() || of_outer == indices) && (of_inner.empty() || of_inner == *ranges);
        if (!fits) break;
        of_outer = indices;
        of_inner = *ranges;
      }
      if (!fits) continue;
      const auto covers = [](const std::vector<Ranges>& parts, int64_t size) {
        int64_t sum = 0;
        for (const Ranges& part : parts)
          for (const Range& range : part) sum += range.size();
        return sum == size;
      };
      if (!covers(outer_parts, to[group.to]) || !covers(inner_parts, to[dim])) continue;
      const auto middle = cut.axes.begin() + static_cast<ptrdiff_t>(first);
      std::vector<Layout::Cut> cuts{
          {Split::of_ranges(outer_parts, to[group.to], static_cast<int64_t>(group.to)), {cut.axes.begin(), middle}},
          {Split::of_ranges(inner_parts, to[dim], static_cast<int64_t>(dim)), {middle, cut.axes.end()}}};
      // What was found must give back the cut: not every one is a product of two.
      const Layout made(
          layout.grid(),
          {to.begin() + static_cast<ptrdiff_t>(group.to), to.begin() + static_cast<ptrdiff_t>(group.to_end)},
          {{cuts[0].split.along(0), cuts[0].axes},
           {cuts[1].split.along(static_cast<int64_t>(dim - group.to)), cuts[1].axes}});
      const auto back = as_one_cut(made, {0, group.to_end - group.to, 0, 1}, {cut.split.size()});
      if (back && back->split == cut.split.along(0)) return cuts;
    }
  }
  return std::nullopt;
}

/// The layout of the result, and the one that x must have for it: dims whose cut no new dim can have are whole.
std::pair<Layout, Layout> viewed(Layout x, const std::vector<int64_t>& to) {
  std::vector<Layout::Cut> cuts;
  for (const Group& group : groups_of(x.shape(), to)) {
    const auto is_cut = [&](size_t dim) { return !x.cuts()[dim].axes.empty(); };
    for (;;) {
      std::vector<size_t> cut_dims;
      for (size_t dim = group.from; dim < group.from_end; ++dim)
        if (is_cut(dim)) cut_dims.push_back(dim);
      if (cut_dims.empty()) break;
      if (const auto two = as_two_cuts(x, group, to)) {
        cuts.insert(cuts.end(), two->begin(), two->end());
        break;
      }
      if (const auto one = as_one_cut(x, group, to)) {
        cuts.push_back(*one);
        break;
      }
      x = whole_along(x, {static_cast<int64_t>(cut_dims.back())});
    }
  }
  std::map<std::string, Kind> kinds = x.kinds();
  return {x, Layout(x.grid(), to, std::move(cuts), std::move(kinds))};
}

std::vector<Way> view_as(const Operation& operation, const std::vector<int64_t>& to, size_t argument) {
  if (product(to, 0, to.size()) == 0) return {};
  const auto [read, made] = viewed(operation.operands[0].layout, to);
  return {Way{.reads = {read}, .makes = {made}, .arguments = {{argument, made.shape_on(operation.home.rank)}}}};
}

std::vector<Way> view(const Operation& operation) {
  const std::vector<int64_t>& shape = operation.shape(0);
  return view_as(operation, at::infer_size(operation.integers(1), product(shape, 0, shape.size())), 1);
}

/// Dims first … last become one.
std::vector<Way> flatten(const Operation& operation) {
  const std::vector<int64_t>& shape = operation.shape(0);
  const auto dims = static_cast<int64_t>(shape.size());
  if (dims == 0) return {};
  const auto first = static_cast<size_t>(operation.dim(1, dims)), last = static_cast<size_t>(operation.dim(2, dims));
  std::vector<int64_t> to(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(first));
  to.push_back(product(shape, first, last + 1));
  to.insert(to.end(), shape.begin() + static_cast<ptrdiff_t>(last) + 1, shape.end());
  if (product(to, 0, to.size()) == 0) return {};
  const auto [read, made] = viewed(operation.operands[0].layout, to);
  return {Way{.reads = {read}, .makes = {made}}};
}

std::vector<Way> unflatten(const Operation& operation) {
  const std::vector<int64_t>& shape = operation.shape(0);
  const auto dim = static_cast<size_t>(operation.dim(1, static_cast<int64_t>(shape.size())));
  const auto sizes = at::infer_size(operation.integers(2), shape[dim]);
  std::vector<int64_t> to(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(dim));
  to.insert(to.end(), sizes.begin(), sizes.end());
  to.insert(to.end(), shape.begin() + static_cast<ptrdiff_t>(dim) + 1, shape.end());
  if (product(to, 0, to.size()) == 0) return {};
  const auto [read, made] = viewed(operation.operands[0].layout, to);
  const std::vector<int64_t> here = made.shape_on(operation.home.rank);
  const auto begin = here.begin() + static_cast<ptrdiff_t>(dim);
  return {Way{.reads = {read},
              .makes = {made},
              .arguments = {{2, std::vector<int64_t>(begin, begin + static_cast<ptrdiff_t>(sizes.size()))}}}};
}

// ---- dims in another order, new dims of size 1, dims of size 1 that go

/// Dim i of the result is dim from[i] of x; -1: a new one.
std::vector<Way> rearranged(const Operation& operation, const std::vector<int64_t>& from) {
  const Layout& x = operation.operands[0].layout;
  std::vector<int64_t> shape;
  for (const int64_t dim : from) shape.push_back(dim < 0 ? 1 : x.shape()[static_cast<size_t>(dim)]);
  std::set<int64_t> kept(from.begin(), from.end());
  std::vector<int64_t> gone;
  for (int64_t dim = 0; dim < x.dims(); ++dim)
    if (!kept.contains(dim) && !x.cuts()[static_cast<size_t>(dim)].axes.empty()) gone.push_back(dim);
  const Layout read = whole_along(x, gone);
  return {Way{.reads = {read}, .makes = {reshaped(read, std::move(shape), from)}}};
}

std::vector<int64_t> in_order(const Operation& operation) {
  std::vector<int64_t> dims(operation.shape(0).size());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

std::vector<Way> transpose(const Operation& operation) {
  std::vector<int64_t> from = in_order(operation);
  const auto dims = static_cast<int64_t>(from.size());
  if (dims > 0)
    std::swap(from[static_cast<size_t>(operation.dim(1, dims))], from[static_cast<size_t>(operation.dim(2, dims))]);
  return rearranged(operation, from);
}
std::vector<Way> transpose_matrix(const Operation& operation) {  // t, mT, …: the last two dims
  std::vector<int64_t> from = in_order(operation);
  if (from.size() > 1) std::swap(from[from.size() - 1], from[from.size() - 2]);
  return rearranged(operation, from);
}
std::vector<Way> permute(const Operation& operation) {
  std::vector<int64_t> from = operation.integers(1);
  for (int64_t& dim : from)
    if (dim < 0) dim += static_cast<int64_t>(from.size());
  return rearranged(operation, from);
}
std::vector<Way> unsqueeze(const Operation& operation) {
  std::vector<int64_t> from = in_order(operation);
  from.insert(from.begin() + static_cast<ptrdiff_t>(operation.dim(1, static_cast<int64_t>(from.size()) + 1)), -1);
  return rearranged(operation, from);
}
/// Which dims go: all of size 1, or those named that have it.
std::vector<Way> squeeze(const Operation& operation) {
  const auto dims = static_cast<int64_t>(operation.shape(0).size());
  std::vector<int64_t> named = operation.arguments.size() > 1 ? operation.integers(1) : in_order(operation), from;
  for (int64_t& dim : named)
    if (dim < 0) dim += dims;
  for (int64_t dim = 0; dim < dims; ++dim)
    if (operation.shape(0)[static_cast<size_t>(dim)] != 1 || std::ranges::find(named, dim) == named.end())
      from.push_back(dim);
  std::vector<Way> ways = rearranged(operation, from);
  // A part of size 0 or 1 of another dim must not go.
  std::vector<int64_t> gone;
  for (const int64_t dim : named)
    if (operation.shape(0)[static_cast<size_t>(dim)] == 1) gone.push_back(dim);
  ways[0].kernel = [gone](Arguments arguments) {
    return std::vector<at::Tensor>{arguments[0].toTensor().squeeze(gone)};
  };
  return ways;
}

/// Dims of size 1 repeated, and new dims before them.
std::vector<Way> expand(const Operation& operation) {
  const Layout& x = operation.operands[0].layout;
  std::vector<int64_t> sizes = operation.integers(1);
  const size_t added = sizes.size() - x.shape().size();
  std::vector<int64_t> from(sizes.size(), -1), whole;
  for (size_t dim = added; dim < sizes.size(); ++dim) {
    const int64_t size = x.shape()[dim - added];
    if (sizes[dim] < 0) sizes[dim] = size;
    if (sizes[dim] == size)
      from[dim] = static_cast<int64_t>(dim - added);
    else if (!x.cuts()[dim - added].axes.empty())
      whole.push_back(static_cast<int64_t>(dim - added));
  }
  const Layout read = whole_along(x, whole), made = reshaped(read, sizes, from);
  return {Way{.reads = {read}, .makes = {made}, .arguments = {{1, made.shape_on(operation.home.rank)}}}};
}

/// new_zeros and its like: with the sizes of x where x lies, else on all workers.
std::vector<Way> made_by(const Operation& operation) {
  const Layout& x = operation.operands[0].layout;
  const std::vector<int64_t> sizes = operation.integers(1);
  if (sizes != x.shape()) return as_it_lies(operation, {operation.home.everywhere(sizes)});
  Way way{.reads = {x}, .makes = {nn::summed(x)}, .arguments = {{1, x.shape_on(operation.home.rank)}}};
  if (operation.name() == "aten::new_empty_strided")
    way.kernel = [](Arguments arguments) { return std::vector<at::Tensor>{at::empty_like(arguments[0].toTensor())}; };
  return {std::move(way)};
}

/// Looks at sizes and types alone.
std::vector<Way> like(const Operation& operation) {
  return as_it_lies(operation, {nn::summed(operation.operands[0].layout)});
}

}  // namespace

Table view_rules() {
  return {{{"view", "reshape", "_unsafe_view"}, view},
          {{"flatten.using_ints"}, flatten},
          {{"unflatten.int"}, unflatten},
          {{"transpose.int", "swapaxes", "swapdims"}, transpose},
          {{"t", "mT"}, transpose_matrix},
          {{"permute"}, permute},
          {{"unsqueeze"}, unsqueeze},
          {{"squeeze", "squeeze.dim", "squeeze.dims"}, squeeze},
          {{"expand"}, expand},
          {{"new_empty_strided", "new_empty", "new_zeros", "new_ones", "new_full"}, made_by},
          {{"zeros_like", "ones_like", "empty_like", "full_like"}, like},
          {{"clone", "lift_fresh_copy", "contiguous", "detach", "alias", "to.dtype", "_to_copy", "copy_", "zero_",
            "fill_.Scalar", "fill_.Tensor", "detach_", "masked_fill_.Scalar", "masked_fill_.Tensor", "hardswish",
            "hardswish_"},
           pointwise}};
}

}  // namespace adjoin::rules
