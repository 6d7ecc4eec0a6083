#include <ATen/ExpandUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>

#include "adjoin/partition/without_dims.hpp"
#include "adjoin/rules/operation.hpp"

namespace adjoin::rules {
namespace {

/// What indices [begin, end) of a cut dim are of each part, as a split of these indices, and where they begin in each piece. None
/// where they are not one after another in a piece.
struct Taken {
  Split split;
  std::vector<int64_t> first;
};
std::optional<Taken> taken(const Split& split, Range indices) {
  std::vector<std::vector<Range>> parts;
  std::vector<int64_t> first;
  for (int part = 0; part < split.parts(); ++part) {
    std::vector<Range> held;
    int64_t offset = 0, begin = 0, before = -1;
    for (const Range& range : split.ranges(part)) {
      if (range.begin < before) return std::nullopt;
      before = range.end;
      const Range common{std::max(range.begin, indices.begin), std::min(range.end, indices.end)};
      if (common.size() > 0) {
        if (held.empty()) begin = offset + common.begin - range.begin;
        held.push_back({common.begin - indices.begin, common.end - indices.begin});
      }
      offset += range.size();
    }
    parts.push_back(std::move(held));
    first.push_back(begin);
  }
  return Taken{Split::of_ranges(std::move(parts), indices.size(), split.dim()), std::move(first)};
}

int part_here(const Layout& layout, int64_t dim, const GlobalGrid& home) {
  const auto cell = layout.grid().cell_of(home.rank);
  return cell ? layout.parts_of(*cell)[static_cast<size_t>(dim)] : 0;
}

/// The layout of indices of a dim alone.
Layout with_part(const Layout& x, int64_t dim, const std::optional<Split>& split, int64_t size) {
  std::vector<int64_t> shape = x.shape();
  shape[static_cast<size_t>(dim)] = size;
  std::vector<Layout::Cut> cuts;
  for (Layout::Cut cut : x.cuts()) {
    if (cut.axes.empty()) continue;
    if (cut.split.dim() == dim) {
      if (!split) continue;
      cut.split = *split;
    }
    cuts.push_back(std::move(cut));
  }
  return Layout(x.grid(), std::move(shape), std::move(cuts), x.kinds());
}

std::vector<Way> slice(const Operation& operation) {
  Layout x = operation.operands[0].layout;
  const int64_t dim = operation.dim(1, x.dims()), size = x.split(dim).size();
  const auto bound = [&](size_t argument, int64_t otherwise) {
    if (operation.arguments[argument].isNone()) return otherwise;
    const int64_t index = operation.integer(argument);
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  const int64_t begin = bound(2, 0), end = std::max(bound(3, size), begin), step = operation.integer(4);
  if (is_cut(x, dim) && step == 1)
    if (const auto here = taken(x.split(dim), {begin, end})) {
      const int part = part_here(x, dim, operation.home);
      const int64_t first = here->first[static_cast<size_t>(part)];
      return {Way{.reads = {x},
                  .makes = {with_part(x, dim, here->split, end - begin)},
                  .arguments = {{2, first}, {3, first + here->split.size(part)}}}};
    }
  x = whole_along(x, {dim});
  return {Way{.reads = {x}, .makes = {with_part(x, dim, {}, (end - begin + step - 1) / step)}}};
}

/// One index of a dim. Where the dim is cut, its owner's summand, to which the others' add zeros.
std::vector<Way> select(const Operation& operation) {
  const Layout& x = operation.operands[0].layout;
  const int64_t dim = operation.dim(1, x.dims()), size = x.split(dim).size();
  const int64_t index = operation.integer(2) < 0 ? operation.integer(2) + size : operation.integer(2);
  if (index < 0 || index >= size) return {};
  Way way{.reads = {x}, .makes = {without_dims(x, {dim}, Kind::partial)}};
  if (!is_cut(x, dim)) return {std::move(way)};
  const int part = part_here(x, dim, operation.home);
  int64_t offset = 0, place = -1;
  for (const Range& range : x.split(dim).ranges(part)) {
    if (range.begin <= index && index < range.end) place = offset + index - range.begin;
    offset += range.size();
  }
  way.kernel = [dim, place](Arguments arguments) {
    const at::Tensor here = arguments[0].toTensor();
    // Those that do not have it stay in the graph, so that all take part in what follows backward.
    return std::vector<at::Tensor>{place >= 0 ? here.select(dim, place)
                                              : here.narrow(dim, 0, 0).sum(dim, false, here.scalar_type())};
  };
  return {std::move(way)};
}

/// x in parts of these sizes along a dim.
std::vector<Way> in_parts(const Operation& operation, int64_t dim, const std::vector<int64_t>& sizes) {
  Layout x = operation.operands[0].layout;
  std::vector<Layout> makes;
  std::vector<int64_t> here;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    std::optional<Split> split;
    if (is_cut(x, dim)) {
      const auto part = taken(x.split(dim), {begin, begin + size});
      if (!part) {  // begins again with the dim whole
        x = whole_along(x, {dim});
        makes.clear();
        here.clear();
        for (const int64_t whole : sizes) {
          makes.push_back(with_part(x, dim, {}, whole));
          here.push_back(whole);
        }
        break;
      }
      split = part->split;
    }
    here.push_back(split ? split->size(part_here(x, dim, operation.home)) : size);
    makes.push_back(with_part(x, dim, split, size));
    begin += size;
  }
  return {Way{.reads = {x}, .makes = std::move(makes), .kernel = [dim, here](Arguments arguments) {
                return arguments[0].toTensor().split_with_sizes(here, dim);
              }}};
}

std::vector<Way> split(const Operation& operation) {
  const int64_t dim = operation.dim(2, static_cast<int64_t>(operation.shape(0).size()));
  const int64_t size = operation.shape(0)[static_cast<size_t>(dim)], most = operation.integer(1);
  if (most <= 0) return {};
  std::vector<int64_t> sizes;
  for (int64_t begin = 0; begin < std::max<int64_t>(size, 1); begin += most)
    sizes.push_back(std::min(most, size - begin));
  return in_parts(operation, dim, sizes);
}

std::vector<Way> split_with_sizes(const Operation& operation) {
  return in_parts(operation, operation.dim(2, static_cast<int64_t>(operation.shape(0).size())), operation.integers(1));
}

/// All indices of a dim, which must be whole.
std::vector<Way> unbind(const Operation& operation) {
  const int64_t dims = operation.operands[0].layout.dims(), dim = operation.dim(1, dims);
  const Layout x = whole_along(operation.operands[0].layout, {dim});
  std::vector<int64_t> shape = x.shape(), from;
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(dim));
  for (int64_t d = 0; d < dims; ++d)
    if (d != dim) from.push_back(d);
  const std::vector<Layout> makes(static_cast<size_t>(x.split(dim).size()), reshaped(x, shape, from));
  return {Way{.reads = {x}, .makes = makes}};
}

/// Tensors one after another along a dim: where all are cut along it over the same axes, each worker joins its pieces.
std::vector<Way> cat(const Operation& operation) {
  const std::vector<Operand>& tensors = operation.operands;
  const int64_t dims = tensors[0].layout.dims();
  if (dims == 0) return {};
  const int64_t dim = operation.dim(1, dims);
  const auto d = static_cast<size_t>(dim);
  int64_t size = 0;
  bool all_cut = true;
  std::vector<std::vector<Range>> parts(static_cast<size_t>(tensors[0].layout.cuts()[d].split.parts()));
  for (const Operand& tensor : tensors) {
    if (tensor.layout.dims() != dims) return {};
    const Layout::Cut& cut = tensor.layout.cuts()[d];
    all_cut = all_cut && !cut.axes.empty() && cut.axes == tensors[0].layout.cuts()[d].axes && !tensor.is_constant;
    for (int part = 0; all_cut && part < cut.split.parts(); ++part)
      for (const Range& range : cut.split.ranges(part))
        parts[static_cast<size_t>(part)].push_back({size + range.begin, size + range.end});
    size += tensor.layout.shape()[d];
  }
  Labels labels;
  std::vector<int> result = numbered(dims);
  labels.results = {result};
  labels.sizes = {{static_cast<int>(dim), size}};
  labels.whole = {static_cast<int>(dim)};
  labels.is_linear = true;
  labels.operands.assign(tensors.size(), result);
  std::vector<Way> ways;
  if (all_cut) {
    const std::vector<std::string> axes = tensors[0].layout.cuts()[d].axes;
    ways = labelled(labels, operation);
    const Split joined = Split::of_ranges(std::move(parts), size, dim);
    std::erase_if(ways, [&](const Way& way) {
      return std::ranges::any_of(axes, [&](const std::string& axis) { return way.makes[0].kind(axis) == Kind::split; });
    });
    for (Way& way : ways) {
      for (size_t i = 0; i < tensors.size(); ++i)
        way.reads[i] = way.reads[i].with_cut({tensors[i].layout.split(dim), axes});
      way.makes[0] = way.makes[0].with_cut({joined, axes});
    }
    if (!ways.empty()) return ways;
  }
  return labelled(labels, operation);
}

std::vector<Way> stack(const Operation& operation) {
  const int64_t dims = operation.operands[0].layout.dims(), dim = operation.dim(1, dims + 1);
  constexpr int kNew = 1000;
  Labels labels;
  labels.operands.assign(operation.operands.size(), numbered(dims));
  std::vector<int> result = numbered(dims);
  result.insert(result.begin() + static_cast<ptrdiff_t>(dim), kNew);
  labels.results = {result};
  labels.sizes = {{kNew, static_cast<int64_t>(operation.arguments[0].toListRef().size())}};
  labels.is_linear = true;
  if (labels.sizes[kNew] != static_cast<int64_t>(operation.operands.size())) return {};  // some are numbers
  return labelled(labels, operation);
}

// ---- by indices

std::vector<Way> index_select(const Operation& operation) {
  const int64_t dims = operation.operands[0].layout.dims();
  if (operation.operands.size() != 2 || dims == 0 || operation.operands[1].layout.dims() != 1) return {};
  constexpr int kIndex = 1000;
  const int64_t dim = operation.dim(1, dims);
  std::vector<int> result = numbered(dims);
  result[static_cast<size_t>(dim)] = kIndex;
  return labelled(
      {.operands = {numbered(dims), {kIndex}}, .results = {result}, .whole = {static_cast<int>(dim)}, .linear_in = 0},
      operation);
}

/// x[i, j, …] with tensors of indices in neighbouring dims and all of the others.
std::vector<Way> index(const Operation& operation) {
  const int64_t dims = operation.operands[0].layout.dims();
  std::vector<int64_t> indexed, shape;
  const auto items = operation.arguments[1].toListRef();
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].isTensor() || !items[i].toTensor().defined()) continue;
    const at::ScalarType type = items[i].toTensor().scalar_type();
    if (type == at::kBool || type == at::kByte) return {};  // how many there are depends on values
    if (!indexed.empty() && indexed.back() != static_cast<int64_t>(i) - 1) return {};
    indexed.push_back(static_cast<int64_t>(i));
    shape = at::infer_size(shape, items[i].toTensor().sizes());
  }
  if (indexed.empty() || operation.operands.size() != indexed.size() + 1) return {};
  constexpr int kFirst = 1000;
  const std::vector<int> labels_of_index = numbered(static_cast<int64_t>(shape.size()), kFirst);
  Labels labels{.operands = {numbered(dims)}, .results = {{}}, .linear_in = 0};
  for (size_t i = 0; i < indexed.size(); ++i)
    labels.operands.push_back(broadcast_labels(operation.operands[i + 1].layout.shape(), shape, labels_of_index));
  for (int64_t dim = 0; dim < dims; ++dim) {
    if (dim == indexed[0])
      labels.results[0].insert(labels.results[0].end(), labels_of_index.begin(), labels_of_index.end());
    if (std::ranges::find(indexed, dim) == indexed.end())
      labels.results[0].push_back(static_cast<int>(dim));
    else
      labels.whole.insert(static_cast<int>(dim));
  }
  return labelled(labels, operation);
}

/// gather, and scatter and its like, in which self and index (and src) have equal sizes but along one dim.
std::vector<Way> along_index(const Operation& operation) {
  const Operand *self = operation.operand(0), *index = operation.operand(2), *source = operation.operand(3);
  if (self == nullptr || index == nullptr) return {};
  const int64_t dims = self->layout.dims();
  if (dims == 0 || index->layout.dims() != dims) return {};
  const int64_t dim = operation.dim(1, dims);
  const bool gathers = operation.name() == "aten::gather";
  constexpr int kOfIndex = 1000;
  Labels labels{.operands = {numbered(dims), {}}, .results = {{}}, .whole = {static_cast<int>(dim)}};
  for (int64_t d = 0; d < dims; ++d) {
    const auto at = static_cast<size_t>(d);
    const bool is_same = d != dim && self->layout.shape()[at] == index->layout.shape()[at];
    labels.operands[1].push_back(static_cast<int>(is_same ? d : kOfIndex + d));
    if (!is_same) labels.whole.insert(static_cast<int>(d));
    if (!is_same && (!gathers || d != dim)) labels.whole.insert(static_cast<int>(kOfIndex + d));
  }
  if (source != nullptr) {
    if (source->layout.shape() != index->layout.shape()) return {};
    labels.operands.push_back(labels.operands[1]);
  }
  labels.results[0] = gathers ? labels.operands[1] : labels.operands[0];
  return labelled(labels, operation);
}

/// Operations along some dims, which must be whole, with a result of the same sizes.
std::vector<Way> whole_dims(const Operation& operation, std::vector<int64_t> dims, bool is_linear) {
  const int64_t all = operation.operands[0].layout.dims();
  const std::vector<int> labels = numbered(all);
  Labels same{.operands = {labels}, .results = {labels}, .is_linear = is_linear};
  for (const int64_t dim : dims) same.whole.insert(static_cast<int>(dim < 0 ? dim + all : dim));
  same.results.assign(operation.handle.schema().returns().size(), labels);
  return labelled(same, operation);
}
std::vector<Way> along_dim(const Operation& operation) {
  return whole_dims(operation, {operation.integer(1)}, operation.name() == "aten::cumsum");
}
std::vector<Way> flip(const Operation& operation) {
  return whole_dims(operation, operation.integers(1), true);
}
std::vector<Way> roll(const Operation& operation) {
  const std::vector<int64_t> dims = operation.integers(2);
  return dims.empty() ? std::vector<Way>() : whole_dims(operation, dims, true);
}
std::vector<Way> of_matrices(const Operation& operation) {
  return whole_dims(operation, {-1, -2}, true);
}
std::vector<Way> sort(const Operation& operation) {
  const size_t argument = operation.arguments[1].isBool() || operation.arguments[1].isNone() ? 2 : 1;  // sort.stable
  return whole_dims(operation, {operation.integer(argument)}, false);
}

/// Some dims change their sizes, and must be whole.
std::vector<Way> resized(const Operation& operation, const std::vector<int64_t>& shape, bool is_linear) {
  const std::vector<int64_t>& old = operation.shape(0);
  const size_t added = shape.size() - old.size();
  constexpr int kNew = 1000;
  Labels labels{.operands = {numbered(static_cast<int64_t>(old.size()))}, .results = {{}}, .is_linear = is_linear};
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const bool is_same = dim >= added && old[dim - added] == shape[dim];
    labels.results[0].push_back(static_cast<int>(is_same ? dim - added : kNew + dim));
    if (is_same) continue;
    labels.sizes[static_cast<int>(kNew + dim)] = shape[dim];
    if (dim >= added) labels.whole.insert(static_cast<int>(dim - added));
  }
  labels.results.resize(operation.handle.schema().returns().size(), labels.results[0]);
  return labelled(labels, operation);
}
std::vector<Way> topk(const Operation& operation) {
  std::vector<int64_t> shape = operation.shape(0);
  if (shape.empty()) return {};
  const auto dim = static_cast<size_t>(operation.dim(2, static_cast<int64_t>(shape.size())));
  if (shape[dim] == operation.integer(1)) return whole_dims(operation, {static_cast<int64_t>(dim)}, false);
  shape[dim] = operation.integer(1);
  return resized(operation, shape, false);
}
std::vector<Way> repeat(const Operation& operation) {
  const std::vector<int64_t> repeats = operation.integers(1), &old = operation.shape(0);
  std::vector<int64_t> shape = repeats;
  for (size_t i = 0; i < old.size(); ++i) shape[shape.size() - 1 - i] *= old[old.size() - 1 - i];
  return resized(operation, shape, true);
}

}  // namespace

Table part_rules() {
  return {{{"slice.Tensor"}, slice},
          {{"select.int"}, select},
          {{"unbind.int"}, unbind},
          {{"split.Tensor"}, split},
          {{"split_with_sizes"}, split_with_sizes},
          {{"cat"}, cat},
          {{"stack"}, stack},
          {{"index_select"}, index_select},
          {{"index.Tensor"}, index},
          {{"gather", "scatter.src", "scatter.value", "scatter_add"}, along_index},
          {{"cumsum", "cumprod", "logcumsumexp"}, along_dim},
          {{"flip"}, flip},
          {{"roll"}, roll},
          {{"tril", "triu"}, of_matrices},
          {{"sort", "sort.stable"}, sort},
          {{"topk"}, topk},
          {{"repeat"}, repeat}};
}

}  // namespace adjoin::rules
