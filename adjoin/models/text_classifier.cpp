#include "adjoin/models/text_classifier.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/all_reduce.hpp"
#include "adjoin/movement/blocks.hpp"

namespace adjoin::models {
namespace {

/// What the rows here add to each sample's first row, or to the mean of its rows.
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
  const at::Tensor lengths = at::tensor(here.all().lengths(), at::kLong);
  const at::Tensor sums =
      at::zeros({lengths.size(0), x.size(1)}, x.options())
          .index_add(0, at::tensor(samples, at::kLong), is_mean ? x : x.index_select(0, at::tensor(rows, at::kLong)));
  return is_mean ? sums / lengths.to(x.scalar_type()).unsqueeze(1) : sums;
}

TrunkOptions trunk_options(const TextClassifierOptions& options) {
  TrunkOptions trunk{
      .model = "TextClassifier",
      .words = options.words,
      .layers = options.layers,
      .positions = options.positions,
      .embedding_cut = options.embedding_cut,
      .embedding_deviation = options.embedding_deviation,
      .block = {.attention = {.hidden = options.hidden, .heads = options.heads, .dropout = options.attention_dropout},
                .feed_forward = nn::feed_forward(options.hidden),
                .experts = options.experts,
                .dropout = options.dropout,
                .rows = options.rows}};
  if (!options.scale_by_head) trunk.block.attention.scale = 1 / std::sqrt(static_cast<double>(options.hidden));
  return trunk;
}

Part classifier_part(const TextClassifierOptions& options) {
  nn::ColRowOptions classifier{.in_features = options.hidden,
                               .hidden_features = options.hidden,
                               .out_features = options.classes,
                               .bias = false,
                               .dropout = options.dropout,
                               .name = "classifier"};
  return {"classifier", [classifier](const Grid& stage, const at::TensorOptions& tensor) mutable {
            classifier.tensor = tensor;
            return nn::ColRow(classifier, stage, "tp").ptr();
          }};
}

/// The groups of a stage that share features, and rows.
struct HeadGroups {
  Communicator features, rows;
};

/// Of the samples of all rows, those of this rank of context parallelism. x: [rows, features] -> [samples, features]
at::Tensor pooled_samples(const at::Tensor& x, const ForwardPass& pass, const TextClassifierOptions& options,
                          const HeadGroups& groups, const Split& samples) {
  at::Tensor pooled = pool(x, options.rows.between_layers(pass.rows, groups.features), options.mean_pooling);
  if (groups.rows.size() > 1) pooled = reduce_scatter(pooled, groups.rows, samples);
  return options.rows.split ? reduce_from(pooled, groups.features) : pooled;
}

}  // namespace

std::vector<Segment> text_classifier(const TextClassifierOptions& options) {
  require(options.classes >= 1,
          [&] { return "TextClassifier: expected at least 1 class, got " + std::to_string(options.classes); });
  const TrunkOptions of_trunk = trunk_options(options);
  std::vector<Segment> segments = trunk(of_trunk);
  Segment head{.name = "head", .kind = "head", .parts = {classifier_part(options)}};
  if (options.final_norm) head.parts.push_back(norm_part(of_trunk));
  head.forward = [options](const Modules& modules, const at::Tensor& x, const ForwardPass& pass, nn::KeyValueCache*) {
    const HeadGroups groups{modules.stage.axis("tp"),
                            options.rows.axis.empty() ? Communicator() : modules.stage.axis(options.rows.axis)};
    const Split samples = Split::balanced(std::ssize(pass.rows.all().lengths()), groups.rows.size(), 0);
    const at::Tensor normed = options.final_norm ? modules.as<nn::ReplicatedLayerNormImpl>(1).forward(x) : x;
    ForwardPass of_samples{.step = pass.step};
    of_samples.step.first_sample += samples.offset(groups.rows.rank());
    return modules.as<nn::ColRowImpl>(0).forward(pooled_samples(normed, pass, options, groups, samples), of_samples);
  };
  segments.push_back(std::move(head));
  return segments;
}

}  // namespace adjoin::models
