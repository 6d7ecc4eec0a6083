#include "adjoin/models/text_classifier.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "adjoin/base/error.hpp"
#include "adjoin/models/embedding_segment.hpp"
#include "adjoin/movement/all_reduce.hpp"
#include "adjoin/movement/blocks.hpp"
#include "adjoin/nn/positions.hpp"

namespace adjoin::models {
namespace {

void check(const TextClassifierOptions& options, int ranks) {
  require(options.words >= 1 && options.layers >= 1 && options.classes >= 1, [&] {
    return "TextClassifier: expected at least 1 word, layer and class, got " + std::to_string(options.words) + ", " +
           std::to_string(options.layers) + " and " + std::to_string(options.classes);
  });
  require(ranks <= options.heads, [&] {
    return "TextClassifier: expected at most as many tensor-parallel ranks as heads, got " + std::to_string(ranks) +
           " ranks and " + std::to_string(options.heads) + " heads";
  });
}

/// What the rows here add to each sample's first row, or to the mean of its rows.
/// Shape: [rows, features] -> [samples, features]
/// Kinds: split -> partial
at::Tensor pool(const at::Tensor& x, const StepContext& here, bool is_mean) {
  std::vector<int64_t> rows, samples;
  const std::vector<TokenPlace> places = here.places(x.size(0));
  for (int64_t row = 0; row < x.size(0); ++row) {
    const auto& [sample, token] = places[static_cast<size_t>(row)];
    if (!is_mean && token != 0) continue;
    rows.push_back(row);
    samples.push_back(sample - here.first_sample);
  }
  const at::Tensor lengths = at::tensor(here.rows->lengths(), at::kLong);
  const at::Tensor sums =
      at::zeros({lengths.size(0), x.size(1)}, x.options())
          .index_add(0, at::tensor(samples, at::kLong), is_mean ? x : x.index_select(0, at::tensor(rows, at::kLong)));
  return is_mean ? sums / lengths.to(x.scalar_type()).unsqueeze(1) : sums;
}

TransformerBlockOptions block_options(const TextClassifierOptions& options, const std::string& name) {
  TransformerBlockOptions block{
      .name = name,
      .attention = {.hidden = options.hidden, .heads = options.heads, .dropout = options.attention_dropout},
      .feed_forward = nn::feed_forward(options.hidden),
      .dropout = options.dropout,
      .rows = options.rows,
      .tensor = options.tensor};
  if (!options.scale_by_head) block.attention.scale = 1 / std::sqrt(static_cast<double>(options.hidden));
  return block;
}

}  // namespace

TextClassifierImpl::TextClassifierImpl(TextClassifierOptions options, const Grid& grid, const std::string& axis)
    : options_(std::move(options)),
      of_rows_(options_.rows.axis.empty() ? Communicator() : grid.axis(options_.rows.axis)) {
  check(options_, grid.shape().axis_size(axis));
  embedding_ = register_module(
      "embedding", nn::ParallelEmbedding(nn::ParallelEmbeddingOptions{.words = options_.words,
                                                                      .features = options_.hidden,
                                                                      .cut = options_.embedding_cut,
                                                                      .split_rows = options_.rows.split,
                                                                      .deviation = options_.embedding_deviation,
                                                                      .tensor = options_.tensor},
                                         grid, axis));
  if (options_.positions > 0)
    positions_ = register_module(
        "positions", nn::ParallelEmbedding(nn::ParallelEmbeddingOptions{.words = options_.positions,
                                                                        .features = options_.hidden,
                                                                        .split_rows = options_.rows.split,
                                                                        .deviation = options_.embedding_deviation,
                                                                        .tensor = options_.tensor},
                                           grid, axis));
  for (int64_t i = 0; i < options_.layers; ++i) {
    const std::string name = "block" + std::to_string(i);
    blocks_.push_back(register_module(name, TransformerBlock(block_options(options_, name), grid, axis)));
  }
  if (options_.final_norm)
    norm_ = register_module("norm",
                            nn::ReplicatedLayerNorm(options_.hidden, grid, axis, options_.tensor, options_.rows.split));
  classifier_ = register_module("classifier", nn::ColRow(nn::ColRowOptions{.in_features = options_.hidden,
                                                                           .hidden_features = options_.hidden,
                                                                           .out_features = options_.classes,
                                                                           .bias = false,
                                                                           .dropout = options_.dropout,
                                                                           .name = "classifier",
                                                                           .tensor = options_.tensor},
                                                         grid, axis));
}

at::Tensor TextClassifierImpl::forward(const at::Tensor& ids, const StepContext& context) {
  at::Tensor x = ids;
  for (const Segment& segment : segments()) x = segment.forward(x, context);
  return x;
}

std::vector<Segment> TextClassifierImpl::segments() const {
  const auto embed = [words = embedding_, positions = positions_](const at::Tensor& ids,
                                                                  const StepContext& context) mutable {
    const at::Tensor x = words(ids);
    return positions ? x + positions(nn::token_numbers(context, ids.size(0))) : x;
  };
  std::vector<Segment> segments{embedding_segment(embedding_, positions_, embed)};
  for (size_t i = 0; i < blocks_.size(); ++i)
    segments.push_back(
        {"block" + std::to_string(i), cost_of(block_options(options_, "")), blocks_[i].ptr(),
         [block = blocks_[i]](const at::Tensor& x, const StepContext& context) mutable { return block(x, context); },
         [block = blocks_[i]](const Load& load) { return block->needs(load); }});
  const auto classify = [norm = norm_, classifier = classifier_, is_mean = options_.mean_pooling,
                         options = options_.rows, group = embedding_->group(),
                         of_rows = of_rows_](const at::Tensor& x, const StepContext& context) mutable {
    at::Tensor pooled = pool(norm ? norm(x) : x, context_between(options, group, context), is_mean);
    const Split samples = Split::balanced(pooled.size(0), of_rows.size(), 0);
    if (of_rows.size() > 1) pooled = reduce_scatter(pooled, of_rows, samples);
    if (options.split) pooled = reduce_from(pooled, group);
    StepContext of_samples = context;
    of_samples.rows = nullptr;
    of_samples.first_sample += samples.offset(of_rows.rank());
    return classifier(pooled, of_samples);
  };
  segments.push_back(
      {"head", 0, std::make_shared<Parts>(Parts::List{{"norm", module_of(norm_)}, {"classifier", classifier_.ptr()}}),
       classify, [group = embedding_->group(), of_rows = of_rows_, options = options_](const Load& load) {
         const int64_t rows = rows_between(options.rows, group, load.rows), hidden = options.hidden;
         Needs needs{.kept = options.final_norm ? rows * (hidden + 2) * load.bytes : 0,
                     .temporary = 2 * rows * hidden * load.bytes};
         const int64_t samples = Split::balanced(load.samples, of_rows.size(), 0).size(of_rows.rank());
         if (of_rows.size() > 1) {
           needs.forward.push_back({Collective::reduce_scatter, of_rows.size(), load.samples * hidden * load.bytes});
           needs.backward.push_back({Collective::all_gather, of_rows.size(), samples * hidden * load.bytes});
         }
         if (group.size() == 1) return needs;
         const auto reduce = [&](int64_t numbers, int64_t bytes) {
           return PlannedCall{Collective::all_reduce, group.size(), samples * numbers * bytes};
         };
         if (options.rows.split) needs.forward.push_back(reduce(hidden, load.bytes));
         needs.forward.push_back(reduce(options.classes, load.product_bytes));
         needs.backward.push_back(reduce(hidden, load.product_bytes));  // below the classifier
         return needs;
       }});
  return segments;
}

int64_t parameters_per_rank(const TextClassifierOptions& options, int ranks) {
  const int64_t h = options.hidden;
  const int64_t split =
      (options.words + options.positions) * h + 12 * options.layers * h * h + h * h + options.classes * h;
  const int64_t replicated = 4 * options.layers * h + (options.final_norm ? 2 * h : 0);
  return split / ranks + replicated;
}

}  // namespace adjoin::models
