#include "adjoin/nn/grouped_linear.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <numeric>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/postponed.hpp"
#include "adjoin/nn/linear.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

void multiply(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
  at::mm_out(out, a, b);
}

/// For each group: its rows of `of_y`, transposed, times those of x; the results are stacked.
at::Tensor of_weights(const at::Tensor& of_y, const at::Tensor& x, const std::vector<int64_t>& rows_of) {
  const int64_t out = of_y.size(1);
  at::Tensor result = at::empty({std::ssize(rows_of) * out, x.size(1)}, x.options());
  int64_t first = 0;
  for (size_t group = 0; group < rows_of.size(); first += rows_of[group++]) {
    at::Tensor here = result.narrow(0, static_cast<int64_t>(group) * out, out);
    if (rows_of[group] == 0)
      here.zero_();
    else
      at::mm_out(here, of_y.narrow(0, first, rows_of[group]).t(), x.narrow(0, first, rows_of[group]));
  }
  return result;
}

struct GroupedProduct : torch::autograd::Function<GroupedProduct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::vector<int64_t>& rows_of) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["rows_of"] = rows_of;
    return fixed::products_of_groups(x, fixed::by_group(as_in_product(weight), rows_of.size()).mT(), rows_of, multiply);
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "grouped_product: double backward is not supported");
    const std::vector<int64_t> rows_of = ctx->saved_data["rows_of"].toIntVector();
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor of_y = gradients[0].contiguous();
    at::Tensor of_x, of_weight;
    if (ctx->needs_input_grad(0))
      of_x = fixed::products_of_groups(of_y, fixed::by_group(weight.to(of_y.scalar_type()), rows_of.size()), rows_of,
                                       multiply);
    if (ctx->needs_input_grad(1))
      of_weight = parameter_gradient(weight, [of_y, x = x.detach(), rows_of, type = weight.scalar_type()] {
        return of_weights(of_y, x, rows_of).to(type);
      });
    return {of_x, of_weight, at::Tensor()};
  }
};

/// How the rows of a weight are split: whole groups over one axis, and the features of each group as in `features`; parts are
/// group-major.
Split rows_of_groups(const Split& groups, const Split& features) {
  std::vector<std::vector<Range>> parts;
  for (int of_groups = 0; of_groups < groups.parts(); ++of_groups)
    for (int of_features = 0; of_features < features.parts(); ++of_features) {
      std::vector<Range>& part = parts.emplace_back();
      for (const Range& range : groups.ranges(of_groups))
        for (int64_t group = range.begin; group < range.end; ++group)
          for (const Range& rows : features.ranges(of_features))
            part.push_back({group * features.size() + rows.begin, group * features.size() + rows.end});
    }
  return Split::of_ranges(std::move(parts), groups.size() * features.size(), 0);
}

Layout layout_of(const GroupedLinearOptions& o, const Grid& grid, const std::string& axis) {
  using Cut = ParallelLinearOptions::Cut;
  const GridShape& shape = grid.shape();
  std::vector<std::string> of_rows;
  if (!o.groups_axis.empty()) of_rows.push_back(o.groups_axis);
  const Split groups = Split::balanced(o.groups, o.groups_axis.empty() ? 1 : shape.axis_size(o.groups_axis), 0);
  const int64_t features = o.cut == Cut::inputs ? o.in_features : o.out_features;
  const Split split = o.split ? o.split(shape.axis_size(axis)) : Split::balanced(features, shape.axis_size(axis), 0);
  require(split.size() == features && (o.cut == Cut::none || split.parts() == shape.axis_size(axis)), [&] {
    return "GroupedLinear: expected a split of " + std::to_string(features) + " features into " +
           std::to_string(shape.axis_size(axis)) + " parts, got " + split.to_string();
  });
  std::vector<Layout::Cut> cuts;
  std::map<std::string, Kind> kinds;
  for (const GridShape::Axis& other : shape.axes())
    if (other.name != axis && other.name != o.groups_axis) kinds.emplace(other.name, Kind::copied);
  const Split whole = Split::balanced(o.out_features, 1, 0);
  if (o.cut == Cut::outputs) of_rows.push_back(axis);
  if (o.cut == Cut::inputs) cuts.push_back({split.along(1), {axis}});
  if (!of_rows.empty()) cuts.push_back({rows_of_groups(groups, o.cut == Cut::outputs ? split : whole), of_rows});
  return Layout(shape, {o.groups * o.out_features, o.in_features}, std::move(cuts), std::move(kinds));
}

}  // namespace

at::Tensor grouped_product(const at::Tensor& x, const at::Tensor& weight, const std::vector<int64_t>& rows_of) {
  const int64_t rows = std::accumulate(rows_of.begin(), rows_of.end(), int64_t{0});
  require(!rows_of.empty() && weight.dim() == 2 && weight.size(0) % std::ssize(rows_of) == 0, [&] {
    return "grouped_product: expected a weight of 2 dims that " + std::to_string(rows_of.size()) +
           " groups divide equally along dim 0, got " + shape_text(weight.sizes().vec());
  });
  require(x.dim() == 2 && x.size(0) == rows, [&] {
    return "grouped_product: expected " + std::to_string(rows) + " rows in x, the sum over all groups, got " +
           shape_text(x.sizes().vec());
  });
  for (const at::Tensor* t : {&x, &weight}) refuse_tangent("grouped_product", *t);
  return GroupedProduct::apply(as_in_product(x), weight, rows_of);
}

GroupedLinearImpl::GroupedLinearImpl(const GroupedLinearOptions& o, const Grid& grid, const std::string& axis)
    : split_(o.split) {
  require(o.groups >= 1 && o.in_features >= 1 && o.out_features >= 1, [&] {
    return "GroupedLinear: expected at least 1 group, 1 feature in and 1 feature out, got " + std::to_string(o.groups) +
           ", " + std::to_string(o.in_features) + " and " + std::to_string(o.out_features);
  });
  const double deviation = o.deviation.value_or(1 / std::sqrt(3.0 * static_cast<double>(o.in_features)));
  std::vector<int64_t> matrices;
  for (int64_t group = 0; group < o.groups; ++group)
    if (o.matrices.empty())
      matrices.push_back(o.out_features);
    else
      matrices.insert(matrices.end(), o.matrices.begin(), o.matrices.end());
  weight_ = register_piece("weight",
                           {layout_of(o, grid, axis), grid, Initial::normal(deviation), std::move(matrices),
                            /*only_in_products=*/true},
                           o.tensor);
  using Cut = ParallelLinearOptions::Cut;
  if (o.cut == Cut::none || !split_) return;
  cut_.group = grid.axis(axis);
  cut_.in = o.cut == Cut::outputs ? fixed::CutFeatures::In::backward : fixed::CutFeatures::In::forward;
}

at::Tensor GroupedLinearImpl::forward(const at::Tensor& x, const fixed::GroupedRows& rows) {
  const auto order = FixedOrder::current();
  if (!order) return grouped_product(x, weight_, rows.of_group);
  cut_.divide(*order, split_, "features of experts");
  return fixed::linear(order, as_in_product(x), weight_, {}, cut_, {}, rows);
}

}  // namespace adjoin::nn
