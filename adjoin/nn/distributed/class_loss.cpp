#include "adjoin/nn/distributed/class_loss.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/held.hpp"
#include "adjoin/nn/distributed/widened.hpp"

namespace adjoin::nn {
ClassLossGeometry geometry_of(const NLLLossOptions& options) {
  return {.name = "NLLLoss",
          .reduction = reduction_of(options.reduction()),
          .weight = options.weight(),
          .ignore_index = options.ignore_index()};
}

ClassLossGeometry geometry_of(const CrossEntropyLossOptions& options) {
  const double smoothing = options.label_smoothing();
  require(smoothing >= 0 && smoothing <= 1,
          [&] { return "CrossEntropyLoss: expected a label smoothing from 0 to 1, got " + std::to_string(smoothing); });
  return {.name = "CrossEntropyLoss",
          .of_scores = true,
          .reduction = reduction_of(options.reduction()),
          .weight = options.weight(),
          .ignore_index = options.ignore_index(),
          .smoothing = smoothing};
}

ClassLossImpl::ClassLossImpl(ClassLossGeometry geometry, const Grid& grid, LayoutRule output)
    : geometry_(std::move(geometry)), output_(std::move(output)), prepared_(geometry_.name, grid) {}

ClassLossImpl::Prepared ClassLossImpl::prepare(const Layout& input) const {
  require(input.dims() >= 1, "expected [classes], or [batch, classes, *]");
  const int64_t class_dim = input.dims() == 1 ? 0 : 1, classes = input.shape()[static_cast<size_t>(class_dim)];
  require(classes >= 1, "expected at least 1 class");
  require(!geometry_.weight.defined() || geometry_.weight.sizes() == at::IntArrayRef{classes}, [&] {
    return "expected a weight for each of " + std::to_string(classes) + " classes, got a tensor of " +
           shape_text(geometry_.weight.sizes().vec());
  });
  const Grid& grid = prepared_.grid();
  const Layout x = summed(input), summands = without_dims(x, {class_dim}, Kind::partial),
               samples = without_dims(x, {class_dim}, Kind::copied),
               counted = without_dims(x, {class_dim}, Kind::replicated);
  const auto cell = x.grid().cell_of(grid.world().rank());
  Prepared prepared{.class_dim = class_dim,
                    .classes = classes,
                    .read = Move(input, x, grid),
                    .samples = samples,
                    .is_here = cell.has_value(),
                    .place = places_held(x, class_dim, grid.world().rank()),
                    .classes_here = cell ? indices_held(x, class_dim, *cell) : at::empty({0}, at::kLong),
                    .over_classes = SoftmaxAlong(x, class_dim, grid),
                    .counts = Total(counted, {2}, on_all_workers(x.grid(), grid, {2}), grid),
                    .each = {},
                    .total = {},
                    .targets = PerLayout<Move>(geometry_.name, grid, "target")};
  if (geometry_.reduction == LossReduction::none)
    prepared.each.emplace(summands, output_ ? output_(summands.shape()) : summed(summands), grid);
  else
    prepared.total.emplace(summands, std::vector<int64_t>(), output_ ? output_({}) : Layout(grid.shape(), {}), grid);
  return prepared;
}

DistributedTensor ClassLossImpl::forward(const DistributedTensor& x, const DistributedTensor& target) {
  require(target.local.scalar_type() == at::kLong, [&] {
    return geometry_.name + ": expected a target of classes, int64, got one of " +
           c10::toString(target.local.scalar_type());
  });
  prepared_.check_type(x);
  Prepared& prepared = prepared_.of(x.layout, [this](const Layout& input) { return prepare(input); });
  const Move& to_samples = prepared.targets.of(target.layout, [&](const Layout& layout) {
    require(layout.shape() == prepared.samples.shape(), [&] {
      return "expected a target of " + shape_text(prepared.samples.shape()) + ", the input's shape without classes";
    });
    return Move(layout, prepared.samples, prepared_.grid());
  });
  const at::Tensor wanted = to_samples(target.local);
  const Labels labels = labels_of(prepared, wanted);
  const double weight = total_weight(prepared, labels, wanted, target.layout);
  const at::Tensor scores = widened(prepared.read(x.local));
  const at::ScalarType type = x.local.scalar_type();
  const at::Tensor logs = geometry_.of_scores ? prepared.over_classes.log_softmax(scores) : scores;
  const at::Tensor each = prepared.is_here ? losses(prepared, logs, labels) : logs;
  if (prepared.each) return {(*prepared.each)(each.to(type)), prepared.each->to(), x.grid};
  const at::Tensor sum = (*prepared.total)(prepared.is_here ? each.sum() : each);
  const bool is_mean = geometry_.reduction == LossReduction::mean;
  return {(is_mean ? sum / weight : sum).to(type), prepared.total->layout(), x.grid};
}

ClassLossImpl::Labels ClassLossImpl::labels_of(const Prepared& prepared, const at::Tensor& target) const {
  const at::Tensor ignored = target == geometry_.ignore_index;
  const at::Tensor classes = target.masked_fill(ignored, 0).clamp(0, prepared.classes - 1);
  const at::Tensor weights = geometry_.weight.defined()
                                 ? geometry_.weight.to(classes.device(), at::kDouble).take(classes)
                                 : at::ones_like(classes, at::kDouble);
  return {classes, ignored, weights.masked_fill(ignored, 0)};
}

double ClassLossImpl::total_weight(const Prepared& prepared, const Labels& labels, const at::Tensor& target,
                                   const Layout& layout) const {
  const at::Tensor wrong = (target != labels.classes).logical_and(labels.ignored.logical_not());
  const at::Tensor counts = prepared.counts(at::stack({labels.weights.sum(), wrong.sum().to(at::kDouble)}));
  const auto wrong_ones = counts[1].item<int64_t>();
  require(wrong_ones == 0, [&] {
    return geometry_.name + ": expected targets from 0 to " + std::to_string(prepared.classes - 1) + ", or " +
           std::to_string(geometry_.ignore_index) + " to be ignored; " + std::to_string(wrong_ones) +
           (wrong_ones == 1 ? " is not" : " are not") + "; the target is " + layout.to_string();
  });
  return counts[0].item<double>();
}

at::Tensor ClassLossImpl::losses(const Prepared& prepared, const at::Tensor& logs, const Labels& labels) const {
  const int64_t dim = prepared.class_dim;
  const at::Tensor place = prepared.place.to(labels.classes.device()).take(labels.classes);
  // Where no class is here: zeros that are in the graph.
  const at::Tensor own =
      logs.size(dim) == 0 ? logs.sum(dim) : logs.gather(dim, place.clamp_min(0).unsqueeze(dim)).squeeze(dim);
  at::Tensor loss = -own.masked_fill((place < 0).logical_or(labels.ignored), 0);
  if (geometry_.weight.defined()) loss = loss * labels.weights.to(logs.scalar_type());
  if (geometry_.smoothing == 0) return loss;
  std::vector<int64_t> over_classes(static_cast<size_t>(logs.dim()), 1);
  over_classes[static_cast<size_t>(dim)] = -1;
  at::Tensor weighted = logs;
  if (geometry_.weight.defined())
    weighted = logs * geometry_.weight.to(logs.device())
                          .index_select(0, prepared.classes_here.to(logs.device()))
                          .to(logs.scalar_type())
                          .view(over_classes);
  const at::Tensor of_all = -weighted.sum(dim).masked_fill(labels.ignored, 0);
  const double share = geometry_.smoothing / static_cast<double>(prepared.classes);
  return (1 - geometry_.smoothing) * loss + share * of_all;
}

}  // namespace adjoin::nn
