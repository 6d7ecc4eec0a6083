#include "adjoin/models/decoder.hpp"

#include <ATen/TensorOperators.h>

#include <memory>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/models/embedding_segment.hpp"
#include "adjoin/nn/positions.hpp"

namespace adjoin::models {
namespace {

DecoderOptions completed(DecoderOptions options, int ranks) {
  require(options.words >= 1 && options.layers >= 1 && options.context >= 1, [&] {
    return "Decoder: expected at least 1 word, layer and token of context, got " + std::to_string(options.words) +
           ", " + std::to_string(options.layers) + " and " + std::to_string(options.context);
  });
  if (options.key_heads == 0) options.key_heads = options.heads;
  require(ranks <= options.key_heads, [&] {
    return "Decoder: expected at most as many tensor-parallel ranks as heads of keys, got " + std::to_string(ranks) +
           " ranks and " + std::to_string(options.key_heads) + " heads of keys";
  });
  const bool is_swiglu = options.activation == nn::Activation::swiglu;
  if (options.inner == 0) options.inner = is_swiglu ? (8 * options.hidden + 2) / 3 : 4 * options.hidden;
  return options;
}

TransformerBlockOptions block_options(const DecoderOptions& options, const std::string& name) {
  return {.name = name,
          .attention = {.hidden = options.hidden,
                        .heads = options.heads,
                        .key_heads = options.key_heads,
                        .causal = true,
                        .rotary_base = options.positions == DecoderOptions::Positions::rotary ? options.rotary_base : 0,
                        .dropout = options.attention_dropout},
          .feed_forward = {.in_features = options.hidden,
                           .hidden_features = options.inner,
                           .out_features = options.hidden,
                           .bias = false,
                           .activation = options.activation},
          .dropout = options.dropout,
          .rows = options.rows,
          .tensor = options.tensor};
}

void check_lengths(const StepContext& context, int64_t most) {
  require(context.rows != nullptr,
          "Decoder: expected a context that says which sample and token each row is, got none");
  for (const int64_t length : context.rows->lengths())
    require(length <= most, [&] {
      return "Decoder: expected samples of at most " + std::to_string(most) + " tokens, the context, got one of " +
             std::to_string(length);
    });
}

}  // namespace

DecoderImpl::DecoderImpl(DecoderOptions options, const Grid& grid, const std::string& axis)
    : options_(completed(std::move(options), grid.shape().axis_size(axis))) {
  embedding_ = register_module(
      "embedding",
      nn::ParallelEmbedding(nn::ParallelEmbeddingOptions{.words = options_.words,
                                                         .features = options_.hidden,
                                                         .cut = nn::ParallelEmbeddingOptions::Cut::vocabulary,
                                                         .split_rows = options_.rows.split,
                                                         .deviation = options_.embedding_deviation,
                                                         .tensor = options_.tensor},
                            grid, axis));
  if (options_.positions == DecoderOptions::Positions::learned)
    positions_ = register_module(
        "positions", nn::ParallelEmbedding(nn::ParallelEmbeddingOptions{.words = options_.context,
                                                                        .features = options_.hidden,
                                                                        .split_rows = options_.rows.split,
                                                                        .deviation = options_.embedding_deviation,
                                                                        .tensor = options_.tensor},
                                           grid, axis));
  for (int64_t i = 0; i < options_.layers; ++i) {
    const std::string name = "block" + std::to_string(i);
    blocks_.push_back(register_module(name, TransformerBlock(block_options(options_, name), grid, axis)));
  }
  norm_ = register_module("norm",
                          nn::ReplicatedLayerNorm(options_.hidden, grid, axis, options_.tensor, options_.rows.split));
}

at::Tensor DecoderImpl::forward(const at::Tensor& ids, const StepContext& context) {
  at::Tensor x = ids;
  for (const Segment& segment : segments()) x = segment.forward(x, context);
  return x;
}

std::vector<Segment> DecoderImpl::segments(std::vector<nn::KeyValueCache>* caches) const {
  const auto embed = [words = embedding_, positions = positions_, most = options_.context, p = options_.dropout,
                      rows = options_.rows](const at::Tensor& ids, const StepContext& context) mutable {
    check_lengths(context, most);
    at::Tensor x = words(ids);
    if (positions) x = x + positions(nn::token_numbers(context, ids.size(0)));
    return nn::dropout(x, p, {"embedding.output", 0}, context_between(rows, words->group(), context));
  };
  std::vector<Segment> segments{embedding_segment(embedding_, positions_, embed)};
  const double cost_of_block = cost_of(block_options(options_, ""));
  for (size_t i = 0; i < blocks_.size(); ++i)
    segments.push_back(
        {"block" + std::to_string(i), cost_of_block, blocks_[i].ptr(),
         [block = blocks_[i], cache = caches ? &caches->at(i) : nullptr](
             const at::Tensor& x, const StepContext& context) mutable { return block(x, context, cache); },
         [block = blocks_[i]](const Load& load) { return block->needs(load); }});
  const auto score = [norm = norm_, words = embedding_](const at::Tensor& x, const StepContext& context) mutable {
    return words->scores(norm(x), context.row_count());
  };
  segments.push_back({"head", 2.0 * static_cast<double>(options_.hidden * options_.words),
                      std::make_shared<Parts>(Parts::List{{"norm", norm_.ptr()}, {"embedding", embedding_.ptr()}}),
                      score, [words = embedding_, hidden = options_.hidden, rows = options_.rows](const Load& load) {
                        const Communicator& group = words->group();
                        const int64_t here = words->split().size(group.rank()),
                                      between = rows_between(rows, group, load.rows);
                        // The norm's input and output, and the scores. The loss has beside each a number of float32 at least, of 16-bit
                        // scores two.
                        Needs needs{.kept = between * ((hidden + 2) * load.bytes + hidden * load.product_bytes) +
                                            load.rows * here * load.product_bytes,
                                    .temporary = load.rows * here * (load.product_bytes < 4 ? 8 : load.bytes)};
                        add_column_calls(needs, rows, group, load, hidden);
                        return needs;
                      }});
  return segments;
}

}  // namespace adjoin::models
