#include "adjoin/models/text_classifier.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/movement/mappings.hpp"

namespace adjoin::models {
namespace {

/// What the rows here contribute to each sample's first row, or to the mean of its rows.
/// Shape: [rows, features] -> [samples, features]
/// Kinds: split -> partial
at::Tensor pool(const at::Tensor& x, const LocalRows& here, bool is_mean) {
  std::vector<int64_t> rows, samples;
  const auto places = here.places(x.size(0));
  for (int64_t row = 0; row < x.size(0); ++row) {
    const auto& [sample, token] = (*places)[static_cast<size_t>(row)];
    if (!is_mean && token != 0) continue;
    rows.push_back(row);
    samples.push_back(sample);
  }
  const auto indices = [&](const std::vector<int64_t>& numbers) {
    return at::tensor(numbers, at::kLong).to(x.device());
  };
  const at::Tensor lengths = indices(here.all().lengths());
  const at::Tensor sums = at::zeros({lengths.size(0), x.size(1)}, x.options())
                              .index_add(0, indices(samples), is_mean ? x : x.index_select(0, indices(rows)));
  return is_mean ? sums / lengths.to(x.scalar_type()).unsqueeze(1) : sums;
}

ModuleRecipe classifier_part(const TransformerOptions& options, const ClassifierOptions& head) {
  nn::ColRowOptions classifier{.in_features = options.hidden,
                               .hidden_features = options.hidden,
                               .out_features = head.classes,
                               .bias = head.pooler,
                               .activation = head.pooler ? nn::Activation::tanh : nn::Activation::gelu,
                               .dropout = head.dropout,
                               .name = "classifier",
                               .is_head = true};
  return {"classifier", [classifier](const Grid& stage, const at::TensorOptions& tensor) mutable {
            classifier.tensor = tensor;
            return nn::ColRow(classifier, stage, "tp").ptr();
          }};
}

/// The groups of a stage whose ranks share features, and rows.
struct HeadGroups {
  Communicator features, rows;
};

/// The samples of this rank of context parallelism, pooled. x: [rows, features] -> [samples, features]
at::Tensor pooled_samples(const at::Tensor& x, const ForwardPass& pass, const RowOptions& rows, bool mean_pooling,
                          const HeadGroups& groups, const Split& samples) {
  // The rows of a sample are added in one order: where they are cut, each rank gets all of them.
  if (rows.split && mean_pooling && FixedOrder::current())
    return pool(gather_from(x, groups.features, rows_of_ranks(pass.rows.size(), groups.features.size())), pass.rows,
                true);
  at::Tensor pooled = pool(x, rows.between_layers(pass.rows, groups.features), mean_pooling);
  if (groups.rows.size() > 1) pooled = reduce_scatter(pooled, groups.rows, samples);
  return rows.split ? reduce_from(pooled, groups.features) : pooled;
}

}  // namespace

std::vector<Segment> text_classifier(const TransformerOptions& options, const ClassifierOptions& head) {
  require(head.classes >= 1,
          [&] { return "TextClassifier: expected at least 1 class, got " + std::to_string(head.classes); });
  std::vector<Segment> segments = trunk(options, "TextClassifier");
  Segment last{.name = "head", .kind = "head", .parts = {classifier_part(options, head)}};
  if (options.final_norm) last.parts.push_back(norm_part(options));
  last.forward = [rows = options.rows, has_norm = options.final_norm,
                  mean_pooling = head.pooling == ClassifierOptions::Pooling::mean](
                     const Modules& modules, const at::Tensor& x, const ForwardPass& pass, nn::KeyValueCache*) {
    const HeadGroups groups{modules.stage.axis("tp"),
                            rows.axis.empty() ? Communicator() : modules.stage.axis(rows.axis)};
    const Split samples = Split::balanced(std::ssize(pass.rows.all().lengths()), groups.rows.size(), 0);
    const at::Tensor normed = has_norm ? modules.as<nn::ReplicatedNormImpl>(1).forward(x) : x;
    ForwardPass of_samples{.step = pass.step};
    of_samples.step.first_sample += samples.offset(groups.rows.rank());
    return modules.as<nn::ColRowImpl>(0).forward(pooled_samples(normed, pass, rows, mean_pooling, groups, samples),
                                                 of_samples);
  };
  segments.push_back(std::move(last));
  return segments;
}

}  // namespace adjoin::models
