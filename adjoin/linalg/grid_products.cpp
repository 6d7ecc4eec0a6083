#include "adjoin/linalg/grid_products.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>

#include "adjoin/linalg/local.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::linalg {
namespace {

/// Sends a panel that `owner` holds to the whole group and returns it; `panel` is used on the owner only.
at::Tensor spread(const at::Tensor& panel, at::IntArrayRef shape, const Communicator& group, int owner) {
  if (group.size() == 1) return panel;
  const at::Tensor all = at::empty(shape, panel.options().requires_grad(false));
  if (group.rank() == owner) all.copy_(panel);
  group.broadcast(buffer(all), owner);
  return all;
}

/// Adds up `partial` over the group's workers, into `out` of the owner.
void collect(const at::Tensor& partial, const at::Tensor& out, const Communicator& group, int owner) {
  const bool is_owner = group.rank() == owner;
  if (group.size() > 1) group.reduce(buffer(partial), is_owner ? buffer(partial) : Buffer{}, Reduction::sum, owner);
  if (is_owner) out.copy_(partial);
}

/// `count` indices of a dim from `begin` on where this worker owns them, else none.
at::Tensor own(const at::Tensor& x, int64_t dim, int64_t begin, int64_t count, bool is_owner) {
  return is_owner ? x.narrow(dim, begin, count) : x.narrow(dim, 0, 0);
}

}  // namespace

GridProducts::GridProducts(const Layout& layout, const Grid& grid, std::optional<int64_t> chunk)
    : has_me_(layout.grid().cell_of(grid.world().rank()).has_value()), chunk_(chunk) {
  if (!has_me_) return;
  const std::string &rows = layout.cuts()[0].axes[0], &columns = layout.cuts()[1].axes[0];
  std::vector<std::string> others;
  for (const GridShape::Axis& axis : layout.grid().axes())
    if (axis.name != rows && axis.name != columns) others.push_back(axis.name);
  row_ = grid.group_along(layout.grid(), {columns});
  column_ = grid.group_along(layout.grid(), {rows});
  copies_ = grid.group_along(layout.grid(), others);
}

void GridProducts::for_each_panel(const Split& from, const Split& to, int64_t bytes,
                                  const std::function<void(const Panel&)>& visit) const {
  const int64_t most = chunk_.value_or(automatic_chunk(bytes));
  for (const Overlap& overlap : overlaps(from, to)) {
    const Split shares = Split::balanced(overlap.range.size(), copies_.size(), 0);
    const int64_t begin = shares.offset(copies_.rank()), end = begin + shares.size(copies_.rank());
    for (int64_t i = begin; i < end; i += most)
      visit({overlap.from, overlap.to, overlap.from_offset + i, overlap.to_offset + i, std::min(most, end - i)});
  }
}

at::Tensor GridProducts::summed(at::Tensor product) const {
  if (copies_.size() > 1) copies_.all_reduce(buffer(product));
  return product;
}

at::Tensor GridProducts::nn(const Factor& left, const Factor& right) const {
  const auto options = left.local.options().requires_grad(false);
  if (!has_me_) return at::empty({0}, options);
  const int64_t rows = left.local.size(0), columns = right.local.size(1);
  const at::Tensor product = at::zeros({rows, columns}, options);
  for_each_panel(
      left.layout.split(1), right.layout.split(0), (rows + columns) * product.element_size(), [&](const Panel& p) {
        const at::Tensor a = own(left.local, 1, p.from_offset, p.count, row_.rank() == p.from);
        const at::Tensor b = own(right.local, 0, p.to_offset, p.count, column_.rank() == p.to);
        product.addmm_(spread(a, {rows, p.count}, row_, p.from), spread(b, {p.count, columns}, column_, p.to));
      });
  return summed(product);
}

at::Tensor GridProducts::nt(const Factor& left, const Factor& right, const Layout& to) const {
  const auto options = left.local.options().requires_grad(false);
  if (!has_me_) return at::empty({0}, options);
  const int64_t rows = left.local.size(0), inner = right.local.size(1);
  const at::Tensor product = at::zeros({rows, to.split(1).size(row_.rank())}, options);
  for_each_panel(right.layout.split(0), to.split(1), (rows + inner) * product.element_size(), [&](const Panel& p) {
    const bool is_owner = row_.rank() == p.to;
    const at::Tensor b = own(right.local, 0, p.from_offset, p.count, column_.rank() == p.from);
    const at::Tensor partial = at::empty({rows, p.count}, options);
    multiply_into(partial, left.local, spread(b, {p.count, inner}, column_, p.from).t());
    collect(partial, own(product, 1, p.to_offset, p.count, is_owner), row_, p.to);
  });
  return summed(product);
}

at::Tensor GridProducts::tn(const Factor& left, const Factor& right, const Layout& to) const {
  const auto options = left.local.options().requires_grad(false);
  if (!has_me_) return at::empty({0}, options);
  const int64_t inner = left.local.size(0), columns = right.local.size(1);
  const at::Tensor product = at::zeros({to.split(0).size(column_.rank()), columns}, options);
  for_each_panel(left.layout.split(1), to.split(0), (inner + columns) * product.element_size(), [&](const Panel& p) {
    const bool is_owner = column_.rank() == p.to;
    const at::Tensor a = own(left.local, 1, p.from_offset, p.count, row_.rank() == p.from);
    const at::Tensor partial = at::empty({p.count, columns}, options);
    multiply_into(partial, spread(a, {inner, p.count}, row_, p.from).t(), right.local);
    collect(partial, own(product, 0, p.to_offset, p.count, is_owner), column_, p.to);
  });
  return summed(product);
}

}  // namespace adjoin::linalg
