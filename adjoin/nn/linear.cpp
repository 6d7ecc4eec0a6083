#include "adjoin/nn/linear.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/autocast_mode.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/postponed.hpp"
#include "adjoin/movement/saved_value.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

at::Tensor all_of(const at::Tensor& x, const SplitRows& rows) {
  return join_blocks(x, rows.group, rows.split);
}
at::Tensor sum_of(const at::Tensor& of_all, const SplitRows& rows) {
  return sum_blocks(of_all, rows.group, rows.split);
}

/// x W^T + b. For a single row this is a matrix times a vector: MKL then reads the weight on one core, on AMD processors at
/// half the speed of the memory. As a batch of several products it takes two fifths of that time on two cores.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  constexpr int64_t kParts = 4, kLeastElements = 1 << 16;
  const bool is_row = x.dim() == 2 && x.size(0) == 1 && weight.is_contiguous() && weight.numel() >= kLeastElements &&
                      weight.size(0) >= kParts && c10::elementSize(weight.scalar_type()) >= 4;
  if (!is_row) return at::linear(x, weight, bias);
  const int64_t each = weight.size(0) / kParts, in = weight.size(1);
  const at::Tensor column = x.t().expand({kParts, in, 1});
  at::Tensor y = weight.narrow(0, 0, kParts * each).view({kParts, each, in}).bmm(column).view({1, kParts * each});
  if (const int64_t rest = weight.size(0) % kParts; rest > 0)
    y = at::cat({y, at::linear(x, weight.narrow(0, kParts * each, rest))}, 1);
  return bias ? y + *bias : y;
}

/// What the product's backward calls with the gradient of x.
using BeginSum = std::function<void(const at::Tensor&)>;

struct LinearProduct : torch::autograd::Function<LinearProduct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const std::optional<SplitRows>& rows,
                            const BeginSum& begin_sum) {
    const at::Tensor used = as_in_product(weight);
    ctx->save_for_backward({x, weight, bias.value_or(at::Tensor())});
    if (rows) ctx->saved_data["rows"] = saved_value(*rows);
    if (begin_sum) ctx->saved_data["begin_sum"] = saved_value(begin_sum);
    return product(rows ? all_of(x, *rows) : x, used, bias);
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const auto* const rows = saved<SplitRows>(*ctx, "rows");
    const bool creates_graph = at::GradMode::is_enabled();
    require(!rows || !creates_graph, "linear_product of split rows: double backward is not supported");
    const tensor_list tensors = ctx->get_saved_variables();
    const at::Tensor &x = tensors[0], &weight = tensors[1], &bias = tensors[2];
    const at::Tensor of_y = fixed::as_matrix(gradients[0]);

    // Between hosts x is gathered beside the product for x's gradient, which is summed beside those of weight and bias. On one
    // host nothing is gained: there the sum comes first, since then its input is not kept for as long.
    const bool begins = rows && rows->group.backend()->spans_hosts();
    std::optional<BegunBlocks> gathered, summed;
    if (begins) gathered = BegunBlocks::of_join(x, rows->group, rows->split);
    at::Tensor of_x;
    if (rows || ctx->needs_input_grad(0)) {
      const at::Tensor of_all = of_y.mm(weight.to(of_y.scalar_type()).conj());
      if (begins)
        summed = BegunBlocks::of_sum(of_all, rows->group, rows->split);
      else
        of_x = rows ? sum_of(of_all, *rows) : of_all.view_as(x);
    }
    if (const auto* const begin_sum = saved<BeginSum>(*ctx, "begin_sum"); begin_sum && of_x.defined() && !creates_graph)
      (*begin_sum)(of_x);
    at::Tensor all = fixed::as_matrix(begins ? gathered->result() : rows ? all_of(x, *rows) : x);
    if (!creates_graph) all = all.detach();  // the postponed part keeps no graph
    at::Tensor of_weight, of_bias;
    if (ctx->needs_input_grad(1))
      of_weight = parameter_gradient(
          weight, [of_y, all, type = weight.scalar_type()] { return of_y.t().mm(all.conj()).to(type); });
    if (bias.defined() && ctx->needs_input_grad(2))
      of_bias = parameter_gradient(bias, [of_y, type = bias.scalar_type()] { return of_y.sum(0).to(type); });
    if (summed) of_x = summed->result();
    return {of_x, of_weight, of_bias, at::Tensor(), at::Tensor()};
  }

 private:
  template <class Value>
  static const Value* saved(const AutogradContext& ctx, const char* name) {
    const auto found = ctx.saved_data.find(name);
    return found == ctx.saved_data.end() ? nullptr : &value_of<Value>(found->second);
  }
};

}  // namespace

at::Tensor as_in_product(const at::Tensor& x) {
  if (!x.defined()) return x;  // no bias
  const c10::DeviceType device = x.device().type();
  const std::optional<at::ScalarType> type = type_of_products(device);
  return type ? at::autocast::cached_cast(*type, x, device) : x;
}

namespace {

at::Tensor product_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const std::optional<SplitRows>& rows, const BeginSum& begin_sum) {
  for (const at::Tensor* t : {&x, &weight, &bias}) refuse_tangent("linear_product", *t);
  return LinearProduct::apply(as_in_product(x), weight, bias.defined() ? std::optional(bias) : std::nullopt, rows,
                              begin_sum);
}

}  // namespace

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          const std::optional<SplitRows>& rows) {
  require(!rows || (x.dim() == 2 && rows->split.parts() == rows->group.size() &&
                    x.size(0) == rows->split.size(rows->group.rank())),
          [&] {
            return "linear_product: rank " + std::to_string(rows->group.rank()) +
                   ": expected this rank's rows of the split " + rows->split.to_string() + ", got " +
                   std::to_string(x.size(0)) + " rows";
          });
  return product_of(x, weight, bias, rows, {});
}

namespace {

using Cut = ParallelLinearOptions::Cut;

/// Checks the sizes and completes the options: the deviation, and the split along the dim of the weight that it cuts.
ParallelLinearOptions completed(ParallelLinearOptions options) {
  require(options.in_features >= 1 && options.out_features >= 1, [&] {
    return "ParallelLinear: expected at least 1 feature in and out, got " + std::to_string(options.in_features) +
           " and " + std::to_string(options.out_features);
  });
  if (!options.deviation) options.deviation = 1 / std::sqrt(3.0 * static_cast<double>(options.in_features));
  require(options.cut != Cut::none || !options.split, "ParallelLinear: expected no split, because cut is Cut::none");
  if (options.cut == Cut::none) return options;
  const int64_t dim = options.cut == Cut::outputs ? 0 : 1;
  const int64_t features = dim == 0 ? options.out_features : options.in_features;
  options.split = [=, into = options.split](int parts) {
    return into ? into(parts).along(dim) : fixed::cut_features(features, parts, dim);
  };
  return options;
}

void check_split(const Split& split, const ParallelLinearOptions& options, int ranks) {
  const int64_t features = options.cut == Cut::outputs ? options.out_features : options.in_features;
  require(split.size() == features && split.parts() == ranks, [&] {
    return "ParallelLinear: expected a split of " + std::to_string(features) + " features into " +
           std::to_string(ranks) + " parts, got " + std::to_string(split.size()) + " into " +
           std::to_string(split.parts());
  });
}

}  // namespace

at::Tensor column_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                  const Communicator& group, const std::optional<Split>& rows) {
  if (rows) return linear_product(x, weight, bias, SplitRows{group, *rows});
  const CopyForLayer copied(as_in_product(x), group);
  return product_of(copied.copy(), weight, bias, {}, copied.begin());
}

at::Tensor row_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const Communicator& group, const std::optional<Split>& rows) {
  const at::Tensor summand = linear_product(x, weight);
  const at::Tensor y = rows ? reduce_scatter(summand, group, *rows) : reduce_from(summand, group);
  return bias.defined() ? y + bias : y;
}

Split stacked(const std::vector<Split>& splits) {
  require(!splits.empty(), "stacked: expected at least 1 split, got none");
  std::vector<std::vector<Range>> parts(static_cast<size_t>(splits.front().parts()));
  int64_t first = 0;
  for (const Split& split : splits) {
    require(split.parts() == splits.front().parts(), [&] {
      return "stacked: expected splits into " + std::to_string(splits.front().parts()) + " parts, got one into " +
             std::to_string(split.parts());
    });
    for (int part = 0; part < split.parts(); ++part)
      for (const Range& range : split.ranges(part))
        parts[static_cast<size_t>(part)].push_back({first + range.begin, first + range.end});
    first += split.size();
  }
  return Split::of_ranges(std::move(parts), first, 0);
}

ParallelLinearImpl::ParallelLinearImpl(ParallelLinearOptions options, const Grid& grid, const std::string& axis)
    : group_(options.cut == Cut::none ? Communicator() : grid.axis(axis)) {
  options_ = completed(std::move(options));
  cut_.group = group_;
  if (options_.split) {
    split_ = options_.split(group_.size());
    check_split(*split_, options_, group_.size());
    cut_.in = options_.cut == Cut::outputs ? fixed::CutFeatures::In::backward : fixed::CutFeatures::In::forward;
  }
  const auto piece = [&](std::vector<int64_t> shape, const std::optional<Split>& split, Initial initial,
                         std::vector<int64_t> matrices = {}) {
    // A tensor that each rank has whole and uses for its own rows is copied, not replicated.
    Layout layout = !split && options_.split_rows ? layout_copied_on(grid.shape(), std::move(shape))
                                                  : layout_cut_along(grid, axis, std::move(shape), split);
    return Piece{std::move(layout), grid, initial, std::move(matrices), /*only_in_products=*/true};
  };
  weight_ =
      register_piece("weight",
                     piece({options_.out_features, options_.in_features}, split_, Initial::normal(*options_.deviation),
                           options_.matrices.value_or(std::vector{options_.out_features})),
                     options_.tensor);
  if (!options_.bias) return;
  // Where inputs are cut, the bias is added once, after the sum, so every rank holds all of it.
  const std::optional<Split> of_bias = options_.cut == Cut::outputs ? split_ : std::nullopt;
  bias_ = register_piece("bias", piece({options_.out_features}, of_bias, Initial::zeros()), options_.tensor);
}

at::Tensor ParallelLinearImpl::forward(const at::Tensor& x, const LocalTokenRows& rows) {
  const bool is_column = options_.cut == Cut::outputs;
  std::optional<Split> split;
  if (options_.split_rows && options_.cut != Cut::none)
    split = rows_of_ranks(is_column ? rows.size() : x.size(0), group_.size());
  if (const auto order = FixedOrder::current()) {
    cut_.divide(*order, options_.split, "features");
    return fixed::linear(order, as_in_product(x), weight_, bias_, cut_, split);
  }
  if (options_.cut == Cut::none) return linear_product(x, weight_, bias_);
  return (is_column ? column_parallel_linear : row_parallel_linear)(x, weight_, bias_, group_, split);
}

at::Tensor activated(const at::Tensor& x, Activation activation) {
  const bool is_fixed = FixedOrder::current() != nullptr;
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::tanh:
      return x.tanh();  // which has the same bits anywhere
    case Activation::gelu:
      return is_fixed ? fixed::activated(x, fixed::Curve::gelu) : at::gelu(x);
    case Activation::gelu_tanh:
      return is_fixed ? fixed::activated(x, fixed::Curve::gelu_tanh) : at::gelu(x, "tanh");
    default:
      const std::vector<at::Tensor> halves = x.chunk(2, -1);
      return (is_fixed ? fixed::activated(halves[0], fixed::Curve::silu) : at::silu(halves[0])) * halves[1];
  }
}

std::vector<int64_t> matrices_of(int64_t rows, Activation activation) {
  return activation == Activation::swiglu ? std::vector{rows / 2, rows / 2} : std::vector{rows};
}

ColRowImpl::ColRowImpl(ColRowOptions options, const Grid& grid, const std::string& axis)
    : options_(std::move(options)) {
  const int ranks = grid.shape().axis_size(axis);
  const auto hidden = [features = options_.hidden_features](int parts) {
    return fixed::cut_features(features, parts, 0);
  };
  const auto made = [hidden, is_swiglu = options_.activation == Activation::swiglu](int parts) {
    return is_swiglu ? stacked({hidden(parts), hidden(parts)}) : hidden(parts);
  };
  const auto linear = [&](const char* name, ParallelLinearOptions::Cut cut, int64_t in, int64_t out,
                          const std::function<Split(int parts)>& split,
                          const std::optional<std::vector<int64_t>>& matrices) {
    return register_module(name, ParallelLinear(ParallelLinearOptions{.in_features = in,
                                                                      .out_features = out,
                                                                      .cut = cut,
                                                                      .bias = options_.bias,
                                                                      .deviation = options_.deviation,
                                                                      .split = split,
                                                                      .matrices = matrices,
                                                                      .split_rows = options_.split_rows,
                                                                      .tensor = options_.tensor},
                                                grid, axis));
  };
  using Cut = ParallelLinearOptions::Cut;
  const int64_t rows = made(ranks).size();
  column_ = linear("column", Cut::outputs, options_.in_features, rows, made, matrices_of(rows, options_.activation));
  row_ = linear("row", Cut::inputs, options_.hidden_features, options_.out_features, hidden,
                options_.is_head ? std::optional(std::vector<int64_t>()) : std::nullopt);
  place_ = {options_.name + ".dropout", hidden(ranks).offset(grid.axis(axis).rank())};
}

at::Tensor ColRowImpl::forward(const at::Tensor& x, const ForwardPass& pass) {
  return row_(dropout(activated(column_(x, pass.rows), options_.activation), options_.dropout, place_, pass));
}

ColRowOptions feed_forward(int64_t hidden, int64_t factor) {
  return {.in_features = hidden, .hidden_features = factor * hidden, .out_features = hidden, .bias = false};
}

}  // namespace adjoin::nn
