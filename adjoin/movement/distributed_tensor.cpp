#include "adjoin/movement/distributed_tensor.hpp"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/move.hpp"
#include "adjoin/partition/without_dims.hpp"

namespace adjoin {
namespace {

void check_exact(const char* operation, const Layout& layout) {
  require(layout.is_exact(), [&] {
    return std::string(operation) + ": expected exact splits, got a covering one in " + layout.to_string();
  });
}

/// The layout that is replicated on all workers of the grid.
Layout everywhere(const Layout& layout, const Grid& grid) {
  return Layout(grid.shape(), layout.shape());
}

void check_not_partial(const char* operation, const Layout& layout) {
  require(layout.axes(Kind::partial).empty(),
          [&] { return std::string(operation) + ": expected no axis to be partial, got " + layout.to_string(); });
}

/// Combines the pieces of two tensors.
template <class Combine>
DistributedTensor combined(const char* operation, const DistributedTensor& a, const DistributedTensor& b,
                           const Combine& combine) {
  require(a.layout == b.layout, [&] {
    return std::string(operation) + ": expected equal layouts, got " + a.layout.to_string() + " and " +
           b.layout.to_string();
  });
  check_exact(operation, a.layout);
  return {combine(a.local, b.local), a.layout, a.grid, a.step ? a.step : b.step};
}

bool is_here(const DistributedTensor& x) {
  return x.layout.grid().cell_of(x.grid.world().rank()).has_value();
}

/// Dims from 0 on; all of them if none is named.
std::vector<int64_t> checked_dims(const char* operation, const Layout& layout, std::vector<int64_t> dims) {
  const auto all = static_cast<size_t>(layout.dims());
  if (dims.empty()) {
    dims.resize(all);
    std::iota(dims.begin(), dims.end(), 0);
  }
  for (int64_t& dim : dims) {
    const int64_t named = dim;
    if (dim < 0) dim += layout.dims();
    require(dim >= 0 && dim < layout.dims() && std::ranges::count(dims, dim) == 1, [&] {
      return std::string(operation) + ": expected dims that the tensor has, each once, got " + std::to_string(named) +
             "; the layout is " + layout.to_string();
    });
  }
  return dims;
}

/// Sums what `summands`, the sums of this worker's own elements, are parts of. Outside the grid they have one dim, of no
/// elements.
template <class Summands>
DistributedTensor total(const char* operation, const DistributedTensor& x, const std::vector<int64_t>& dims,
                        bool keepdim, const Summands& summands) {
  check_exact(operation, x.layout);
  const Layout partial = without_dims(x.layout, dims, Kind::partial, keepdim);
  Layout sums = partial;
  for (const std::string& axis : partial.axes(Kind::partial)) sums = sums.with_kind(axis, Kind::replicated);
  const at::Tensor here =
      is_here(x) ? summands(x.local, dims, keepdim) : summands(x.local.flatten().unsqueeze(1), {1}, false);
  return {move(here, partial, sums, x.grid), sums, x.grid, x.step};
}

/// The kind in which a tensor of kind `b` along an axis is put behind one of kind `a`.
Kind joined(Kind a, Kind b) {
  if (a == b) return a;
  return a == Kind::copied || b == Kind::copied ? Kind::copied : Kind::replicated;
}

/// The kinds that all tensors can have along the axes that do not cut the first one.
std::map<std::string, Kind> joined_kinds(const std::vector<DistributedTensor>& tensors) {
  std::map<std::string, Kind> kinds = tensors.front().layout.kinds();
  for (const DistributedTensor& x : tensors)
    for (auto& [axis, kind] : kinds)
      kind = joined(kind, x.layout.grid() == tensors.front().layout.grid() ? x.layout.kind(axis) : Kind::replicated);
  return kinds;
}

/// Where `x` is put behind others that are cut like `first`: along `dim` it keeps its own parts if it is cut over the same axes.
Layout beside(const Layout& first, const std::map<std::string, Kind>& kinds, const Layout& x, size_t dim) {
  std::vector<Layout::Cut> cuts;
  for (size_t d = 0; d < first.cuts().size(); ++d) {
    Layout::Cut cut = first.cuts()[d];
    if (cut.axes.empty()) continue;
    if (d == dim) {
      const bool keeps = x.grid() == first.grid() && x.cuts()[d].axes == cut.axes;
      cut.split = keeps ? x.cuts()[d].split : Split::balanced(x.shape()[d], cut.split.parts(), cut.split.dim());
    }
    cuts.push_back(std::move(cut));
  }
  return Layout(first.grid(), x.shape(), std::move(cuts), kinds);
}

/// Each part holds its parts of all splits, one after another.
Split in_turn(const std::vector<Split>& splits) {
  std::vector<std::vector<Range>> parts(static_cast<size_t>(splits.front().parts()));
  int64_t before = 0;
  for (const Split& split : splits) {
    for (int part = 0; part < split.parts(); ++part)
      for (const Range& range : split.ranges(part)) {
        std::vector<Range>& own = parts[static_cast<size_t>(part)];
        const Range shifted{before + range.begin, before + range.end};
        if (range.size() == 0) continue;
        if (!own.empty() && own.back().end == shifted.begin)
          own.back().end = shifted.end;
        else
          own.push_back(shifted);
      }
    before += split.size();
  }
  return Split::of_ranges(std::move(parts), before, splits.front().dim());
}

void check_shapes_to_join(const std::vector<DistributedTensor>& tensors, int64_t dim, int64_t named) {
  const Layout& first = tensors.front().layout;
  for (const DistributedTensor& x : tensors) {
    check_exact("cat", x.layout);
    bool fits = dim >= 0 && dim < first.dims() && x.layout.dims() == first.dims();
    for (int64_t d = 0; fits && d < first.dims(); ++d)
      fits = d == dim || x.layout.split(d).size() == first.split(d).size();
    require(fits, [&] {
      return "cat: expected tensors that have dim " + std::to_string(named) + " and differ at most in its size, got " +
             first.to_string() + " and " + x.layout.to_string();
    });
  }
}

}  // namespace

DistributedTensor place(const at::Tensor& whole, const Layout& layout, const Grid& grid) {
  check_exact("place", layout);
  return {move(whole, everywhere(layout, grid), layout, grid), layout, grid};
}

DistributedTensor move(const DistributedTensor& x, const Layout& layout) {
  return {move(x.local, x.layout, layout, x.grid), layout, x.grid, x.step};
}

at::Tensor whole(const DistributedTensor& x) {
  check_exact("whole", x.layout);
  // Copies of one value count as one value, which the first copy provides; the others stay in the graph, with gradient
  // 0.
  const Layout held = first_copy(x.layout);
  const bool gives = held.grid().cell_of(x.grid.world().rank()).has_value();
  return move(gives ? x.local : x.local.flatten().narrow(0, 0, 0), held, everywhere(x.layout, x.grid), x.grid);
}

DistributedTensor map(const DistributedTensor& x, const std::function<at::Tensor(const at::Tensor&)>& f) {
  check_not_partial("map", x.layout);
  const at::Tensor y = f(x.local);
  require(y.sizes() == x.local.sizes(), [&] {
    return "map: expected an elementwise function, which keeps the shape " + shape_text(x.local.sizes().vec()) +
           ", got a result of shape " + shape_text(y.sizes().vec());
  });
  return {y, x.layout, x.grid, x.step};
}

DistributedTensor operator+(const DistributedTensor& a, const DistributedTensor& b) {
  return combined("operator+", a, b, [](const at::Tensor& x, const at::Tensor& y) { return x + y; });
}

DistributedTensor operator-(const DistributedTensor& a, const DistributedTensor& b) {
  return combined("operator-", a, b, [](const at::Tensor& x, const at::Tensor& y) { return x - y; });
}

DistributedTensor operator*(const DistributedTensor& a, const DistributedTensor& b) {
  check_not_partial("operator*", a.layout);
  return combined("operator*", a, b, [](const at::Tensor& x, const at::Tensor& y) { return x * y; });
}

DistributedTensor operator*(const DistributedTensor& x, const at::Scalar& number) {
  check_exact("operator*", x.layout);
  return {x.local * number, x.layout, x.grid, x.step};
}

DistributedTensor sum(const DistributedTensor& x, std::vector<int64_t> dims, bool keepdim) {
  dims = checked_dims("sum", x.layout, std::move(dims));
  return total("sum", x, dims, keepdim,
               [](const at::Tensor& local, at::IntArrayRef over, bool keeps) { return local.sum(over, keeps); });
}

DistributedTensor mean(const DistributedTensor& x, std::vector<int64_t> dims, bool keepdim) {
  dims = checked_dims("mean", x.layout, std::move(dims));
  const at::ScalarType type = x.local.scalar_type();
  require(at::isFloatingType(type) || at::isComplexType(type),
          [&] { return std::string("mean: expected floating-point or complex numbers, got ") + c10::toString(type); });
  double count = 1;
  for (const int64_t dim : dims) count *= static_cast<double>(x.layout.split(dim).size());
  return total("mean", x, dims, keepdim, [&](const at::Tensor& local, at::IntArrayRef over, bool keeps) {
    if (count == 0) return local.mean(over, keeps);  // NaN, with second derivatives of 0, where a division has NaN
    return (local.sum(over, keeps, at::toOpMathType(type)) / count).to(type);
  });
}

DistributedTensor cat(const std::vector<DistributedTensor>& tensors, int64_t dim) {
  require(!tensors.empty(), "cat: expected at least one tensor");
  const DistributedTensor& first = tensors.front();
  const int64_t at = dim < 0 ? dim + first.layout.dims() : dim;
  check_shapes_to_join(tensors, at, dim);
  const auto d = static_cast<size_t>(at);
  const std::map<std::string, Kind> kinds = joined_kinds(tensors);
  std::vector<at::Tensor> pieces;
  std::vector<Split> splits;
  std::optional<Step> step;
  for (const DistributedTensor& x : tensors) {
    const Layout layout = beside(first.layout, kinds, x.layout, d);
    const at::Tensor piece = layout == x.layout ? x.local : move(x.local, x.layout, layout, x.grid);
    pieces.push_back((is_here(first) ? piece : piece.flatten()).unsqueeze(0));
    splits.push_back(layout.cuts()[d].split);
    if (!step) step = x.step;
  }
  const Split whole = in_turn(splits);
  std::vector<int64_t> shape = first.layout.shape();
  shape[d] = whole.size();
  std::vector<Layout::Cut> cuts;
  for (size_t other = 0; other < shape.size(); ++other) {
    const Layout::Cut& cut = first.layout.cuts()[other];
    if (!cut.axes.empty()) cuts.push_back({other == d ? whole : cut.split, cut.axes});
  }
  // With one dim more, since LibTorch's cat leaves a tensor of shape [0] out of the graph of the second derivatives.
  return {at::cat(pieces, is_here(first) ? at + 1 : 1).squeeze(0),
          Layout(first.layout.grid(), std::move(shape), std::move(cuts), kinds), first.grid, step};
}

}  // namespace adjoin
