#include "adjoin/models/trunk.hpp"

#include <ATen/TensorOperators.h>

#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/positions.hpp"

namespace adjoin::models {
namespace {

Part embedding_part(const std::string& name, nn::ParallelEmbeddingOptions options) {
  return {name, [options](const Grid& stage, const at::TensorOptions& tensor) mutable {
            options.tensor = tensor;
            return nn::ParallelEmbedding(options, stage, "tp").ptr();
          }};
}

int64_t heads_to_cut(const nn::SelfAttentionOptions& attention) {
  return attention.key_heads == 0 ? attention.heads : attention.key_heads;
}

void check_ranks(const TrunkOptions& options, const Grid& stage) {
  const int ranks = stage.shape().axis_size("tp");
  const int64_t heads = heads_to_cut(options.block.attention);
  require(ranks <= heads, [&] {
    return options.model + ": expected at most as many tensor-parallel ranks as heads of keys, got " +
           std::to_string(ranks) + " ranks and " + std::to_string(heads) + " heads of keys";
  });
}

void check_lengths(const TrunkOptions& options, const LocalRows& rows) {
  if (options.longest == 0) return;
  for (const int64_t length : rows.all().lengths())
    require(length <= options.longest, [&] {
      return options.model + ": expected samples of at most " + std::to_string(options.longest) +
             " tokens, the context, got one of " + std::to_string(length);
    });
}

}  // namespace

Part words_part(const TrunkOptions& options) {
  return embedding_part("embedding", {.words = options.words,
                                      .features = options.block.attention.hidden,
                                      .cut = options.embedding_cut,
                                      .split_rows = options.block.rows.split,
                                      .deviation = options.embedding_deviation});
}

Part norm_part(const TrunkOptions& options) {
  return {"norm", [hidden = options.block.attention.hidden, is_split = options.block.rows.split](
                      const Grid& stage, const at::TensorOptions& tensor) {
            return nn::ReplicatedLayerNorm(hidden, stage, "tp", tensor, is_split).ptr();
          }};
}

std::vector<Segment> trunk(const TrunkOptions& options) {
  require(options.words >= 1 && options.layers >= 1, [&] {
    return options.model + ": expected at least 1 word and layer, got " + std::to_string(options.words) + " and " +
           std::to_string(options.layers);
  });
  const RowOptions& rows = options.block.rows;
  const auto output_shape = [rows, hidden = options.block.attention.hidden](const Grid& stage, const LocalRows& here) {
    return std::vector<int64_t>{rows.between_layers(here, stage.axis("tp")).size(), hidden};
  };
  Segment embedding{.name = "embedding", .kind = "embedding", .parts = {words_part(options)}};
  if (options.positions > 0)
    embedding.parts.push_back(embedding_part("positions", {.words = options.positions,
                                                           .features = options.block.attention.hidden,
                                                           .split_rows = rows.split,
                                                           .deviation = options.embedding_deviation}));
  embedding.forward = [options](const Modules& modules, const at::Tensor& ids, const ForwardPass& pass,
                                nn::KeyValueCache*) {
    check_lengths(options, pass.rows);
    at::Tensor x = modules.as<nn::ParallelEmbeddingImpl>(0).forward(ids);
    if (options.positions > 0)
      x = x + modules.as<nn::ParallelEmbeddingImpl>(1).forward(nn::token_numbers(pass.rows, ids.size(0)));
    return nn::dropout(x, options.embedding_dropout, {"embedding.output", 0},
                       {pass.step, options.block.rows.between_layers(pass.rows, modules.stage.axis("tp"))});
  };
  embedding.output_shape = output_shape;

  std::vector<Segment> segments{std::move(embedding)};
  for (int64_t i = 0; i < options.layers; ++i) {
    TransformerBlockOptions of_block = options.block;
    of_block.name = "block" + std::to_string(i);
    const bool has_experts = of_block.experts.in_block(i);
    if (!has_experts) of_block.experts = {};
    Segment block{.name = of_block.name, .kind = has_experts ? "block of experts" : "block", .cost = cost_of(of_block)};
    if (has_experts) block.experts = of_block.experts.experts;
    block.parts = {{block.name, [options, of_block](const Grid& stage, const at::TensorOptions& tensor) mutable {
                      check_ranks(options, stage);
                      of_block.tensor = tensor;
                      return TransformerBlock(of_block, stage, "tp").ptr();
                    }}};
    block.forward = [](const Modules& modules, const at::Tensor& x, const ForwardPass& pass, nn::KeyValueCache* cache) {
      return modules.as<TransformerBlockImpl>(0).forward(x, pass, cache);
    };
    block.output_shape = output_shape;
    segments.push_back(std::move(block));
  }
  return segments;
}

}  // namespace adjoin::models
