#include "adjoin/nn/distributed/sequential.hpp"

#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::nn {
namespace {

/// Cuts the first dim of [first, last] over all axes that cut one of these dims; the others are then whole.
Layout::Cut gathered_into_first(const Layout& input, size_t first, size_t last) {
  Layout::Cut cut = input.cuts()[first];
  int parts = cut.split.parts();
  for (size_t dim = first + 1; dim <= last; ++dim) {
    const Layout::Cut& other = input.cuts()[dim];
    cut.axes.insert(cut.axes.end(), other.axes.begin(), other.axes.end());
    parts *= other.split.parts();
  }
  if (cut.axes != input.cuts()[first].axes)
    cut.split = Split::balanced(input.shape()[first], parts, static_cast<int64_t>(first));
  return cut;
}

/// The same parts after each index has become `inner` indices.
Split widened(const Split& split, int64_t inner) {
  std::vector<std::vector<Range>> parts(static_cast<size_t>(split.parts()));
  for (int part = 0; part < split.parts(); ++part)
    for (const Range& range : split.ranges(part))
      parts[static_cast<size_t>(part)].push_back({range.begin * inner, range.end * inner});
  return Split::of_ranges(std::move(parts), split.size() * inner, split.dim());
}

}  // namespace

DistributedTensor SequentialImpl::forward(const DistributedTensor& x) {
  return is_empty() ? x : torch::nn::SequentialImpl::forward<DistributedTensor>(x);
}

std::shared_ptr<torch::nn::Module> InnerSequentialImpl::clone(const std::optional<at::Device>& device) const {
  auto copy = std::make_shared<InnerSequentialImpl>();
  copy->train(is_training());  // before it has children, as they have their own modes
  const auto names = named_children().keys();
  for (const torch::nn::AnyModule& layer : *this) copy->push_back(names[copy->size()], layer.clone(device));
  return copy;
}

FlattenImpl::FlattenImpl(const FlattenOptions& o, const Grid& grid) : options(o), prepared_("Flatten", grid) {}

DistributedTensor FlattenImpl::forward(const DistributedTensor& x) {
  const Prepared& prepared = prepared_.of(x.layout, [this](const Layout& input) { return prepare(input); });
  const at::Tensor local = prepared.read(x.local);
  return {local.reshape(prepared.made.shape_on(x.grid.world().rank())), prepared.made, x.grid, x.step};
}

FlattenImpl::Prepared FlattenImpl::prepare(const Layout& input) const {
  const int64_t dims = input.dims();
  const int64_t begin = options.start_dim() < 0 ? options.start_dim() + dims : options.start_dim();
  const int64_t end = options.end_dim() < 0 ? options.end_dim() + dims : options.end_dim();
  require(0 <= begin && begin <= end && end < dims, [&] {
    return "expected an input that has dims " + std::to_string(options.start_dim()) + " to " +
           std::to_string(options.end_dim());
  });
  const auto first = static_cast<size_t>(begin), last = static_cast<size_t>(end);
  const Layout x = summed(input);
  const Layout::Cut gathered = gathered_into_first(x, first, last);
  std::vector<Layout::Cut> read, made;
  std::vector<int64_t> shape;
  int64_t inner = 1;
  for (size_t dim = first + 1; dim <= last; ++dim) inner *= x.shape()[dim];
  for (size_t dim = 0; dim < x.shape().size(); ++dim) {
    if (dim > first && dim <= last) continue;
    const Layout::Cut& cut = dim == first ? gathered : x.cuts()[dim];
    const auto at = static_cast<int64_t>(shape.size());
    shape.push_back(dim == first ? x.shape()[dim] * inner : x.shape()[dim]);
    if (cut.axes.empty()) continue;
    read.push_back(cut);
    made.push_back({dim == first ? widened(cut.split, inner) : cut.split.along(at), cut.axes});
  }
  return {Move(input, Layout(x.grid(), x.shape(), std::move(read), x.kinds()), prepared_.grid()),
          Layout(x.grid(), std::move(shape), std::move(made), x.kinds())};
}

}  // namespace adjoin::nn
