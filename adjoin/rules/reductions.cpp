#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>

#include "adjoin/rules/operation.hpp"

namespace adjoin::rules {
namespace {

/// The dims that an operation reduces, from 0 on: those of an argument, or all.
std::vector<int64_t> reduced_dims(const Operation& operation, std::optional<size_t> argument) {
  const auto dims = static_cast<int64_t>(operation.shape(0).size());
  std::vector<int64_t> reduced = argument ? operation.integers(*argument) : std::vector<int64_t>();
  for (int64_t& dim : reduced)
    if (dim < 0) dim += dims;
  if (reduced.empty())
    for (int64_t dim = 0; dim < dims; ++dim) reduced.push_back(dim);
  return reduced;
}

Labels reduction(const Operation& operation, const std::vector<int64_t>& reduced, bool keeps, bool may_be_cut) {
  const auto dims = static_cast<int64_t>(operation.shape(0).size());
  Labels labels{.operands = {numbered(dims)}, .results = {{}}, .is_linear = may_be_cut};
  for (int64_t dim = 0; dim < dims; ++dim) {
    const bool goes = std::ranges::find(reduced, dim) != reduced.end();
    if (goes && !may_be_cut) labels.whole.insert(static_cast<int>(dim));
    if (!goes || keeps) labels.results[0].push_back(goes ? Labels::kOne : static_cast<int>(dim));
  }
  labels.results.resize(operation.handle.schema().returns().size(), labels.results[0]);
  return labels;
}

std::vector<Way> sum(const Operation& operation) {
  const bool of_dims = operation.arguments.size() > 2;
  Labels labels = reduction(operation, reduced_dims(operation, of_dims ? std::optional<size_t>(1) : std::nullopt),
                            of_dims && operation.arguments[2].toBool(), true);
  labels.is_linear = operation.arguments.back().isNone();  // else it casts first
  return labelled(labels, operation);
}

/// The sum over all workers, of which each divides its own by the count.
std::vector<Way> mean(const Operation& operation) {
  const bool of_dims = operation.arguments.size() > 2;
  const std::vector<int64_t> reduced = reduced_dims(operation, of_dims ? std::optional<size_t>(1) : std::nullopt);
  const bool keeps = of_dims && operation.arguments[2].toBool();
  double count = 1;
  for (const int64_t dim : reduced) count *= static_cast<double>(operation.shape(0)[static_cast<size_t>(dim)]);
  std::vector<Way> ways = labelled(reduction(operation, reduced, keeps, true), operation);
  for (Way& way : ways) {
    if (way.reads[0].shape_on(operation.home.rank) == way.reads[0].shape()) continue;  // LibTorch's own
    way.kernel = [reduced, keeps, count,
                  type = operation.arguments.back().toOptional<at::ScalarType>()](Arguments arguments) {
      const at::Tensor x = arguments[0].toTensor();
      const at::ScalarType result = type.value_or(x.scalar_type());
      return std::vector<at::Tensor>{(x.sum(reduced, keeps, at::toOpMathType(result)) / count).to(result)};
    };
  }
  return ways;
}

/// Reductions for which the parts of a dim are not enough: max, var, argmax, …
std::vector<Way> of_whole_dims(const Operation& operation) {
  std::optional<size_t> dims;
  bool keeps = false;
  for (size_t i = 1; i < operation.arguments.size(); ++i) {
    const std::string& name = operation.handle.schema().arguments()[i].name();
    if (name == "dim") dims = operation.arguments[i].isNone() ? std::nullopt : std::optional(i);
    if (name == "keepdim") keeps = operation.arguments[i].toBool();
  }
  const std::vector<int64_t> reduced = reduced_dims(operation, dims);
  return labelled(reduction(operation, reduced, keeps && dims.has_value(), false), operation);
}

/// The norm of all elements: of the norms of the workers' pieces.
std::vector<Way> norm(const Operation& operation) {
  if (operation.operands.size() != 1) return {};
  for (size_t i = 1; i < operation.arguments.size(); ++i)
    if (operation.handle.schema().arguments()[i].name() == "dim" && !operation.integers(i).empty())
      return of_whole_dims(operation);
  if (operation.arguments.size() > 3 && operation.arguments[3].toBool()) return {};
  const Layout x = nn::summed(operation.operands[0].layout);
  std::map<std::string, Kind> kinds = x.kinds();
  std::vector<std::string> axes;
  int parts = 1;
  for (const Layout::Cut& cut : x.cuts())
    if (!cut.axes.empty()) {
      axes.insert(axes.end(), cut.axes.begin(), cut.axes.end());
      parts *= cut.split.parts();
    }
  for (const std::string& axis : axes) kinds[axis] = Kind::replicated;
  Way way{.reads = {x}, .makes = {Layout(x.grid(), {}, {}, kinds)}};
  if (parts > 1) {
    const Layout whole(x.grid(), {parts}, {}, kinds);
    for (const std::string& axis : axes) kinds.erase(axis);
    const Layout each(x.grid(), {parts}, {{Split::balanced(parts, parts, 0), axes}}, kinds);
    way.kernel = [gather = GlobalMove(each, whole, operation.home.grid)](Arguments arguments) {
      const at::Scalar order =
          arguments.size() > 1 && arguments[1].isScalar() ? arguments[1].toScalar() : at::Scalar(2);
      const at::Tensor here = at::linalg_vector_norm(arguments[0].toTensor(), order).reshape({1});
      const at::Tensor all = gather(here);
      return std::vector<at::Tensor>{order.toDouble() == 0 ? all.sum() : at::linalg_vector_norm(all, order)};
    };
  }
  return {std::move(way)};
}

/// A loss of pairs of elements: each worker sums those of its own and divides the sum by the number of all.
std::vector<Way> loss(const Operation& operation) {
  size_t place = 0;
  while (operation.handle.schema().arguments()[place].name() != "reduction") ++place;
  const int64_t reduction = operation.integer(place);
  std::vector<Way> ways = pointwise(operation);
  if (reduction == 0) return ways;
  constexpr int64_t kMean = 1, kSum = 2;
  std::vector<Way> reduced;
  for (Way& way : ways) {
    const Layout elements = way.makes[0];
    if (!elements.axes(Kind::partial).empty()) continue;
    double count = 1;
    for (const int64_t size : elements.shape()) count *= static_cast<double>(size);
    std::map<std::string, Kind> kinds = elements.kinds();
    for (const std::string& axis : elements.axes(Kind::split)) kinds[axis] = Kind::partial;
    way.makes = {Layout(elements.grid(), {}, {}, kinds)};
    if (!elements.axes(Kind::split).empty()) {
      const auto handle = operation.handle;
      way.kernel = [handle, place, count, is_mean = reduction == kMean](Arguments arguments) {
        Stack stack(arguments.begin(), arguments.end());
        stack[place] = kSum;
        handle.callBoxed(&stack);
        const at::Tensor sum = stack[0].toTensor();
        return std::vector<at::Tensor>{is_mean ? sum / count : sum};
      };
    }
    reduced.push_back(std::move(way));
  }
  return reduced;
}

}  // namespace

Table reduction_rules() {
  return {{{"sum", "sum.dim_IntList"}, sum},
          {{"mean", "mean.dim"}, mean},
          {{"amax",
            "amin",
            "max",
            "min",
            "max.dim",
            "min.dim",
            "argmax",
            "argmin",
            "any",
            "any.dim",
            "all",
            "all.dim",
            "prod",
            "prod.dim_int",
            "logsumexp",
            "var.correction",
            "std.correction",
            "var_mean.correction",
            "median",
            "median.dim"},
           of_whole_dims},
          {{"linalg_vector_norm", "norm.Scalar"}, norm},
          {{"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
            "binary_cross_entropy_with_logits", "soft_margin_loss", "kl_div"},
           loss}};
}

}  // namespace adjoin::rules
