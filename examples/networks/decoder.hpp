#pragma once

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

/// The decoder that `adjoin train --preset gpt-small` trains (adjoin/models/decoder.hpp), written for one worker with LibTorch
/// alone.
namespace adjoin::example {

/// The defaults are gpt-small's.
struct DecoderOptions {
  int64_t words = 4000, layers = 4, hidden = 256, heads = 8;
  double dropout = 0.1;  ///< of the embeddings, and of the outputs of attention and feed-forward
};

inline torch::nn::Linear linear(int64_t in, int64_t out) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
}

inline torch::nn::LayerNorm layer_norm(int64_t features) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({features}));
}

/// Rotary positions: features i and i + size / 2 of a head are a pair, which turns from token to token by the angle
/// 10000^(-i / (size / 2)). So the product of a query and a key depends only on the distance of their tokens.
///
/// Shape:  [batch, heads, tokens, size] with an even size -> the same
/// Source: Su et al., "RoFormer", arXiv 2104.09864
inline at::Tensor rotary(const at::Tensor& x) {
  const int64_t tokens = x.size(2), half = x.size(3) / 2;
  const at::Tensor speeds = at::pow(10000, at::arange(half, at::kDouble) / static_cast<double>(-half));
  const at::Tensor angles = at::outer(at::arange(tokens, at::kDouble), speeds);
  const at::ScalarType type = at::promote_types(x.scalar_type(), at::kFloat);  // 16 bits would be too few for an angle
  const at::Tensor cosine = angles.cos().to(type), sine = angles.sin().to(type);
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return at::cat({halves[0] * cosine - halves[1] * sine, halves[0] * sine + halves[1] * cosine}, -1).type_as(x);
}

/// Multi-head self-attention in which a token sees only itself and those before it.
/// Shape: [batch, tokens, hidden] -> the same
class CausalAttentionImpl : public torch::nn::Module {
 public:
  CausalAttentionImpl(int64_t hidden, int64_t heads)
      : heads_(heads),
        qkv_(register_module("qkv", linear(hidden, 3 * hidden))),
        out_(register_module("out", linear(hidden, hidden))) {}

  at::Tensor forward(const at::Tensor& x) {
    const std::vector<at::Tensor> qkv = qkv_(x).chunk(3, -1);
    const at::Tensor q = rotary(split_heads(qkv[0])), k = rotary(split_heads(qkv[1])), v = split_heads(qkv[2]);
    const at::Tensor y =
        at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0, /*is_causal=*/true);
    return out_(y.transpose(1, 2).flatten(2));
  }

 private:
  /// [batch, tokens, hidden] -> [batch, heads, tokens, hidden / heads]
  at::Tensor split_heads(const at::Tensor& x) const {
    return x.view({x.size(0), x.size(1), heads_, x.size(2) / heads_}).transpose(1, 2);
  }

  int64_t heads_;
  torch::nn::Linear qkv_, out_;
};
TORCH_MODULE(CausalAttention);

/// x + dropout(attention(norm(x))), then x + dropout(feed_forward(norm(x))).
/// Shape: [batch, tokens, hidden] -> the same
class DecoderBlockImpl : public torch::nn::Module {
 public:
  explicit DecoderBlockImpl(const DecoderOptions& options)
      : norm1_(register_module("norm1", layer_norm(options.hidden))),
        attention_(register_module("attention", CausalAttention(options.hidden, options.heads))),
        norm2_(register_module("norm2", layer_norm(options.hidden))),
        up_(register_module("up", linear(options.hidden, 4 * options.hidden))),
        down_(register_module("down", linear(4 * options.hidden, options.hidden))),
        dropout_(register_module("dropout", torch::nn::Dropout(options.dropout))) {}

  at::Tensor forward(at::Tensor x) {
    x = x + dropout_(attention_(norm1_(x)));
    return x + dropout_(down_(at::gelu(up_(norm2_(x)))));
  }

 private:
  torch::nn::LayerNorm norm1_;
  CausalAttention attention_;
  torch::nn::LayerNorm norm2_;
  torch::nn::Linear up_, down_;
  torch::nn::Dropout dropout_;
};
TORCH_MODULE(DecoderBlock);

/// A transformer that predicts the next word, of GPT's shape. The weight of its embedding scores the words too.
///
/// Shape:  ids [batch, tokens] int64 -> scores [batch, tokens, words]
/// Source: Radford et al., "Language models are unsupervised multitask learners", 2019
class DecoderImpl : public torch::nn::Module {
 public:
  explicit DecoderImpl(const DecoderOptions& options = {})
      : embedding_(register_module("embedding", torch::nn::Embedding(options.words, options.hidden))),
        dropout_(register_module("dropout", torch::nn::Dropout(options.dropout))),
        blocks_(register_module("blocks", torch::nn::Sequential())),
        norm_(register_module("norm", layer_norm(options.hidden))) {
    for (int64_t i = 0; i < options.layers; ++i) blocks_->push_back(DecoderBlock(options));
    torch::nn::init::normal_(embedding_->weight, /*mean=*/0, /*std=*/0.02);
  }

  at::Tensor forward(const at::Tensor& ids) { return score(blocks_->forward(embed(ids))); }

  // The parts between which a pipeline may cut.
  at::Tensor embed(const at::Tensor& ids) { return dropout_(embedding_(ids)); }
  torch::nn::Sequential blocks() { return blocks_; }
  at::Tensor score(const at::Tensor& x) { return at::linear(norm_(x), embedding_->weight); }

 private:
  torch::nn::Embedding embedding_;
  torch::nn::Dropout dropout_;
  torch::nn::Sequential blocks_;
  torch::nn::LayerNorm norm_;
};
TORCH_MODULE(Decoder);

}  // namespace adjoin::example
