#include "adjoin/nn/distributed/route.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <numeric>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/forward_record.hpp"
#include "adjoin/nn/distributed/linked.hpp"

namespace adjoin::nn {
LayoutRule balanced_over(GridShape grid, std::vector<std::vector<std::string>> axes) {
  return [grid = std::move(grid), axes = std::move(axes)](const std::vector<int64_t>& shape) {
    require(axes.size() <= shape.size(), [&] {
      return "expected at least " + std::to_string(axes.size()) + " dims to cut, got " + shape_text(shape);
    });
    std::vector<Layout::Cut> cuts;
    for (size_t dim = 0; dim < axes.size(); ++dim) {
      int parts = 1;
      for (const std::string& axis : axes[dim]) parts *= grid.axis_size(axis);
      if (!axes[dim].empty())
        cuts.push_back({Split::balanced(shape[dim], parts, static_cast<int64_t>(dim)), axes[dim]});
    }
    return Layout(grid, shape, std::move(cuts));
  };
}

LayoutRule on_one_worker(int rank) {
  return [grid = GridShape({{"one", 1}}, {rank})](const std::vector<int64_t>& shape) { return Layout(grid, shape); };
}

Layout weight_layout(const std::string& layer, const std::string& expected, const LayerLayouts& placement,
                     const Layout& otherwise) {
  if (!placement.weight) return otherwise;
  require(placement.weight->shape() == otherwise.shape(), [&] {
    return layer + ": expected " + expected + shape_text(otherwise.shape()) + ", got " + placement.weight->to_string();
  });
  return *placement.weight;
}

void check_type(const std::string& layer, const DistributedTensor& x, const at::Tensor& like, bool mixes) {
  const at::ScalarType type = x.local.scalar_type();
  const auto got = [&](const std::string& expected) {
    return layer + ": rank " + std::to_string(x.grid.world().rank()) + ": expected an input of " + expected + ", got " +
           c10::toString(type) + "; its layout is " + x.layout.to_string();
  };
  require(at::isFloatingType(type), [&] { return got("floating-point numbers"); });
  if (!like.defined() || type == like.scalar_type() || at::autocast::is_autocast_enabled(like.device().type())) return;
  require(mixes && at::elementSize(type) == 2 && like.scalar_type() == at::kFloat,
          [&] { return got(std::string(c10::toString(like.scalar_type())) + ", the type of the parameters"); });
}

Layout summed(const Layout& made) {
  std::vector<Layout::Cut> cuts;
  std::map<std::string, Kind> kinds = made.kinds();
  for (const Layout::Cut& cut : made.cuts())
    if (cut.split.is_exact()) cuts.push_back(cut);
  for (auto& [axis, kind] : kinds)
    if (kind == Kind::partial) kind = Kind::replicated;
  return Layout(made.grid(), made.shape(), std::move(cuts), std::move(kinds));
}

Route::Route(const Layout& input, Plan plan, const Grid& grid)
    : links_(plan.kernels_differ || leaves_some_out(plan.read.fetched, grid) || leaves_some_out(plan.made, grid)),
      read_(input, std::move(plan.read), grid, plan.fill),
      write_(plan.made, plan.output, grid),
      kernel_(std::move(plan.kernel)),
      made_(plan.made.shape_on(grid.world().rank())) {}

DistributedTensor Route::operator()(const DistributedTensor& x, at::TensorList parameters) const {
  const at::Tensor read = read_(x.local, x.room);
  const int64_t count = std::accumulate(made_.begin(), made_.end(), int64_t{1}, std::multiplies<>());
  const at::TensorOptions options =
      (parameters.empty() ? read : parameters[0]).options();  // what is read may be integer indices
  at::Tensor made = count > 0 ? kernel_(read, parameters) : at::zeros(made_, options.requires_grad(false));
  if (links_) {
    std::vector<at::Tensor> all = parameters.vec();
    all.push_back(read);
    made = linked(made, all);
  }
  return {declared("the output of a layer", write_(made), write_.to(), x.grid), write_.to(), x.grid, x.step};
}

}  // namespace adjoin::nn
