#include "adjoin/nn/distributed/weightless.hpp"

#include "adjoin/base/error.hpp"

namespace adjoin::nn {
namespace {

bool can_make(const Layout& wanted, const std::vector<int64_t>& shape, size_t space) {
  if (wanted.shape() != shape || !wanted.is_exact() || !wanted.axes(Kind::partial).empty()) return false;
  for (size_t dim = space; dim < shape.size(); ++dim)
    if (!parts_are_ranges(wanted.split(static_cast<int64_t>(dim)))) return false;
  return true;
}

}  // namespace

OutputPlace output_place(const Layout& input, const std::vector<int64_t>& shape, size_t space, const LayoutRule& rule) {
  if (rule) {
    const Layout wanted = rule(shape);
    if (can_make(wanted, shape, space)) return {wanted, wanted};
  }
  const Layout whole = summed(input);
  std::vector<Layout::Cut> cuts;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    Layout::Cut cut = whole.cuts()[dim];
    const bool stays = dim < space || (shape[dim] == input.shape()[dim] && parts_are_ranges(cut.split));
    if (!stays) cut.split = Split::balanced(shape[dim], cut.split.parts(), cut.split.dim());
    cuts.push_back(std::move(cut));
  }
  const Layout made(whole.grid(), shape, std::move(cuts), whole.kinds());
  return {made, rule ? rule(shape) : made};
}

size_t dims_before_space(const Layout& input, size_t space_dims) {
  const auto dims = static_cast<size_t>(input.dims());
  require(dims == space_dims + 1 || dims == space_dims + 2, [&] {
    return "expected [batch, channels, *space] with " + std::to_string(space_dims) +
           " dims of space, or the same without the batch";
  });
  return dims - space_dims;
}

HaloPlan plan_needed(const std::vector<int64_t>& inputs, const Layout& made, size_t space,
                     const std::function<Range(size_t dim, Range outputs)>& needed) {
  HaloPlan plan{made, std::vector<Window>(inputs.size()), {}, made};
  std::vector<Layout::Cut> cuts;
  for (size_t dim = 0; dim < inputs.size(); ++dim) {
    const Split& outputs = made.split(static_cast<int64_t>(dim));
    const auto parts = static_cast<size_t>(outputs.parts());
    std::vector<std::vector<Range>> fetched(parts);
    for (size_t part = 0; part < parts && dim >= space; ++part) {
      const Range range = *contiguous_range(outputs, static_cast<int>(part));
      if (range.size() > 0) fetched[part].push_back(needed(dim, range));
    }
    plan.halos.push_back({dim < space ? outputs : Split::covering(std::move(fetched), inputs[dim], outputs.dim()),
                          std::vector<Pads>(parts), std::vector<std::vector<Places>>(parts)});
    cuts.push_back({plan.halos.back().fetched, made.cuts()[dim].axes});
  }
  plan.fetched = Layout(made.grid(), inputs, std::move(cuts), made.kinds());
  return plan;
}

std::vector<Range> space_made_here(const Layout& made, size_t space, const Grid& grid) {
  std::vector<Range> ranges;
  const auto cell = made.grid().cell_of(grid.world().rank());
  if (!cell) return ranges;
  const std::vector<int> parts = made.parts_of(*cell);
  for (size_t dim = space; dim < parts.size(); ++dim)
    ranges.push_back(*contiguous_range(made.split(static_cast<int64_t>(dim)), parts[dim]));
  return ranges;
}

}  // namespace adjoin::nn
