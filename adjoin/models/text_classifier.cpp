#include "adjoin/models/text_classifier.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/sum_of_nodes.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::models {
namespace {

/// What the rows here contribute to each sample's first row, or to the mean of its rows.
/// Shape: [rows, features] -> [samples, features]
/// Kinds: split -> partial
at::Tensor pool(const at::Tensor& x, const LocalTokenRows& here, bool is_mean) {
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

/// The mean of each sample's rows in a fixed order: those of a block of tokens one after another, then blocks as a tree.
/// Shape: [rows, features] -> [samples, features] on the first rank of the group, which shares the samples' tokens, none on others
/// Kinds: split -> split
at::Tensor mean_in_order(const at::Tensor& x, const TokenRows& rows, const FixedOrder& order,
                         const Communicator& group) {
  const int64_t count = order.blocks.count, samples = std::ssize(rows.lengths());
  std::vector<std::vector<Range>> held;  // by rank, block by block
  for (const auto& blocks : order.blocks.held) {
    held.emplace_back();
    for (const int64_t block : blocks) held.back().push_back({block, block + 1});
  }
  std::vector<Range> rows_of;  // each block's
  for (int64_t end = 0; const int64_t block : order.blocks.held[static_cast<size_t>(group.rank())]) {
    const int64_t begin = end;
    for (const int64_t length : rows.lengths()) end += order.blocks.tokens(block, length).size();
    rows_of.push_back({begin, end});
  }
  std::vector<int64_t> sample_of;  // each row's
  for (const TokenPlace& place : rows.places(group.rank())) sample_of.push_back(place.sample);
  const at::Tensor indices = at::tensor(sample_of, at::kLong);
  const auto forward = [=](const at::Tensor& t) {
    const at::TensorOptions options = t.options().requires_grad(false);
    std::vector<at::Tensor> nodes;
    for (const Range& block : rows_of)
      nodes.push_back(
          at::zeros({samples, t.size(1)}, options)
              .index_add(0, indices.narrow(0, block.begin, block.size()), t.narrow(0, block.begin, block.size()))
              .view({-1}));
    std::vector<int64_t> sizes(static_cast<size_t>(group.size()), 0);
    sizes[0] = samples * t.size(1);
    return reduce_scatter_nodes(nodes, {count}, held, sizes, group, options).view({-1, t.size(1)});
  };
  const auto adjoint = [=](const at::Tensor& g) {
    const at::Tensor all = group.rank() == 0 ? g.contiguous() : at::empty({samples, g.size(1)}, g.options());
    group.broadcast(buffer(all), 0);
    return all.index_select(0, indices);
  };
  const at::Tensor sums = apply({.forward = forward, .adjoint = adjoint}, x, group);
  return group.rank() == 0 ? sums / at::tensor(rows.lengths(), at::kLong).to(x.scalar_type()).unsqueeze(1) : sums;
}

/// The samples of this rank of context parallelism, pooled. x: [rows, features] -> [samples, features]
at::Tensor pooled_samples(const at::Tensor& x, const ForwardPass& pass, const TokenRowOptions& rows, bool mean_pooling,
                          const HeadGroups& groups, const Split& samples) {
  if (const auto order = FixedOrder::current(); order && mean_pooling) {
    const Split cut = rows_of_ranks(pass.rows.size(), groups.features.size());
    return mean_in_order(rows.split ? gather_from(x, groups.features, cut) : x, pass.rows.all(), *order, groups.rows);
  }
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
    const Split samples = samples_of_ranks(std::ssize(pass.rows.all().lengths()), groups.rows.size());
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
