#include "adjoin/models/text_classifier.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "adjoin/base/error.hpp"
#include "adjoin/models/embedding_segment.hpp"
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

/// The first row of each sample, or the mean of its rows. Shape: [rows, features] -> [samples, features]
at::Tensor pool(const at::Tensor& x, const Rows& rows, bool is_mean) {
  const auto samples = std::ssize(rows.lengths());
  if (samples == 0) return x;  // no rows either
  const at::Tensor lengths = at::tensor(rows.lengths(), at::kLong);
  if (!is_mean) return x.index_select(0, lengths.cumsum(0) - lengths);
  const at::Tensor sums =
      at::zeros({samples, x.size(1)}, x.options()).index_add(0, at::arange(samples).repeat_interleave(lengths), x);
  return sums / lengths.to(x.scalar_type()).unsqueeze(1);
}

TransformerBlockOptions block_options(const TextClassifierOptions& options, const std::string& name) {
  TransformerBlockOptions block{
      .name = name,
      .attention = {.hidden = options.hidden, .heads = options.heads, .dropout = options.attention_dropout},
      .feed_forward = nn::feed_forward(options.hidden),
      .dropout = options.dropout,
      .tensor = options.tensor};
  if (!options.scale_by_head) block.attention.scale = 1 / std::sqrt(static_cast<double>(options.hidden));
  return block;
}

}  // namespace

TextClassifierImpl::TextClassifierImpl(TextClassifierOptions options, const Grid& grid, const std::string& axis)
    : options_(std::move(options)) {
  check(options_, grid.shape().axis_size(axis));
  embedding_ = register_module(
      "embedding", nn::ParallelEmbedding(nn::ParallelEmbeddingOptions{.words = options_.words,
                                                                      .features = options_.hidden,
                                                                      .cut = options_.embedding_cut,
                                                                      .deviation = options_.embedding_deviation,
                                                                      .tensor = options_.tensor},
                                         grid, axis));
  if (options_.positions > 0)
    positions_ = register_module(
        "positions", nn::ParallelEmbedding(nn::ParallelEmbeddingOptions{.words = options_.positions,
                                                                        .features = options_.hidden,
                                                                        .deviation = options_.embedding_deviation,
                                                                        .tensor = options_.tensor},
                                           grid, axis));
  for (int64_t i = 0; i < options_.layers; ++i) {
    const std::string name = "block" + std::to_string(i);
    blocks_.push_back(register_module(name, TransformerBlock(block_options(options_, name), grid, axis)));
  }
  if (options_.final_norm)
    norm_ = register_module("norm", nn::ReplicatedLayerNorm(options_.hidden, grid, axis, options_.tensor));
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
  const auto classify = [norm = norm_, classifier = classifier_, is_mean = options_.mean_pooling](
                            const at::Tensor& x, const StepContext& context) mutable {
    StepContext of_samples = context;
    of_samples.rows = nullptr;
    return classifier(pool(norm ? norm(x) : x, *context.rows, is_mean), of_samples);
  };
  segments.push_back(
      {"head", 0, std::make_shared<Parts>(Parts::List{{"norm", module_of(norm_)}, {"classifier", classifier_.ptr()}}),
       classify,
       [ranks = embedding_->group().size(), hidden = options_.hidden, classes = options_.classes,
        has_norm = options_.final_norm](const Load& load) {
         Needs needs{.kept = has_norm ? load.rows * (hidden + 2) * load.bytes : 0,
                     .temporary = 2 * load.rows * hidden * load.bytes};
         if (ranks > 1)
           for (const int64_t numbers : {hidden, classes})  // backward below the classifier, forward its sum
             needs.calls.push_back({Collective::all_reduce, ranks, load.samples * numbers * load.product_bytes});
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
