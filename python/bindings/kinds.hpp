#pragma once

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/padding.h>
#include <torch/nn/modules/pooling.h>

#include "adjoin/nn/distributed/batch_norm.hpp"
#include "adjoin/nn/distributed/conv.hpp"
#include "adjoin/nn/distributed/embedding.hpp"
#include "adjoin/nn/distributed/layer_norm.hpp"
#include "adjoin/nn/distributed/linear.hpp"
#include "adjoin/nn/distributed/pad.hpp"
#include "adjoin/nn/distributed/pool.hpp"
#include "adjoin/nn/distributed/sequential.hpp"
#include "adjoin/nn/distributed/softmax.hpp"
#include "python/bindings/options.hpp"

namespace adjoin::python {

namespace t = torch::nn;

template <size_t D, class Options>
Options conv_options(const Given& g) {
  Options options(g.get<int64_t>("in_channels"), g.get<int64_t>("out_channels"), g.each<D>("kernel_size"));
  options.stride(g.each<D>("stride"))
      .dilation(g.each<D>("dilation"))
      .groups(g.get<int64_t>("groups"))
      .bias(g.get<bool>("bias"));
  options.padding_mode(g.choice<torch::nn::detail::conv_padding_mode_t>(
      "padding_mode", std::pair("zeros", torch::kZeros), std::pair("reflect", torch::kReflect),
      std::pair("replicate", torch::kReplicate), std::pair("circular", torch::kCircular)));
  return options;
}
template <size_t D>
t::ConvOptions<D> plain_conv(const Given& g) {
  const auto text = g.maybe_text("padding");
  auto options = conv_options<D, t::ConvOptions<D>>(g);
  if (!text) return options.padding(g.each<D>("padding"));
  using Padding = typename t::detail::ConvNdOptions<D>::padding_t;
  return options.padding(
      g.choice<Padding>("padding", std::pair("same", torch::kSame), std::pair("valid", torch::kValid)));
}
template <size_t D>
t::ConvTransposeOptions<D> transposed_conv(const Given& g) {
  return conv_options<D, t::ConvTransposeOptions<D>>(g)
      .padding(g.each<D>("padding"))
      .output_padding(g.each<D>("output_padding"));
}

template <size_t D>
t::MaxPoolOptions<D> max_pool(const Given& g) {
  t::MaxPoolOptions<D> options(g.each<D>("kernel_size"));
  if (!g.is_none("stride")) options.stride(g.each<D>("stride"));
  return options.padding(g.each<D>("padding")).dilation(g.each<D>("dilation")).ceil_mode(g.get<bool>("ceil_mode"));
}
template <size_t D>
t::AvgPoolOptions<D> avg_pool(const Given& g) {
  t::AvgPoolOptions<D> options(g.each<D>("kernel_size"));
  if (!g.is_none("stride")) options.stride(g.each<D>("stride"));
  options.padding(g.each<D>("padding"))
      .ceil_mode(g.get<bool>("ceil_mode"))
      .count_include_pad(g.get<bool>("count_include_pad"));
  if constexpr (D > 1) options.divisor_override(g.maybe<int64_t>("divisor_override"));
  return options;
}
/// Of adaptive poolings: sizes, of which some may be None from 2 dims on.
template <class Options, size_t D>
Options adaptive(const Given& g) {
  if constexpr (D == 1) {
    return Options(g.each<1>("output_size"));
  } else {
    return Options(g.each_or_none<D>("output_size"));
  }
}

/// Of paddings, by the template of their options.
template <template <size_t> class Options, size_t D>
Options<D> pad(const Given& g) {
  if constexpr (std::is_same_v<Options<D>, t::ConstantPadOptions<D>>)
    return Options<D>(g.each<2 * D>("padding"), g.get<double>("value"));
  else
    return Options<D>(g.each<2 * D>("padding"));
}

t::BatchNormOptions inline batch_norm(const Given& g) {
  return t::BatchNormOptions(g.get<int64_t>("num_features"))
      .eps(g.get<double>("eps"))
      .momentum(g.maybe<double>("momentum"))
      .affine(g.get<bool>("affine"))
      .track_running_stats(g.get<bool>("track_running_stats"));
}
t::InstanceNormOptions inline instance_norm(const Given& g) {
  return t::InstanceNormOptions(g.get<int64_t>("num_features"))
      .eps(g.get<double>("eps"))
      .momentum(g.get<double>("momentum"))
      .affine(g.get<bool>("affine"))
      .track_running_stats(g.get<bool>("track_running_stats"));
}
t::EmbeddingOptions inline embedding(const Given& g) {
  require(g.is_none("max_norm") && !g.get<bool>("scale_grad_by_freq") && !g.get<bool>("sparse"),
          "Embedding: max_norm, scale_grad_by_freq and sparse are not supported");
  t::EmbeddingOptions options(g.get<int64_t>("num_embeddings"), g.get<int64_t>("embedding_dim"));
  return options.padding_idx(g.maybe<int64_t>("padding_idx"));
}
t::LayerNormOptions inline layer_norm(const Given& g) {
  return t::LayerNormOptions(g.sizes("normalized_shape"))
      .eps(g.get<double>("eps"))
      .elementwise_affine(g.get<bool>("elementwise_affine"));
}

/// Calls visit.operator()<layer here, its twin in LibTorch>(options) for the layer of this name; false where there is none.
template <class Visit>
bool visit_kind(const std::string& kind, const Given& g, const Visit& visit) {
#define ADJOIN_KIND(name, options) \
  if (kind == #name) return visit.template operator()<nn::name##Impl, t::name##Impl>(options), true;
#define ADJOIN_KINDS_OF_DIMS(name, options) \
  ADJOIN_KIND(name##1d, options<1>(g))      \
  ADJOIN_KIND(name##2d, options<2>(g))      \
  ADJOIN_KIND(name##3d, options<3>(g))
#define ADJOIN_PADS(name)                              \
  ADJOIN_KIND(name##1d, (pad<t::name##Options, 1>(g))) \
  ADJOIN_KIND(name##2d, (pad<t::name##Options, 2>(g))) \
  ADJOIN_KIND(name##3d, (pad<t::name##Options, 3>(g)))
#define ADJOIN_NORMS(name, options) \
  ADJOIN_KIND(name##1d, options(g)) \
  ADJOIN_KIND(name##2d, options(g)) \
  ADJOIN_KIND(name##3d, options(g))
#define ADJOIN_ADAPTIVE(name, D) ADJOIN_KIND(name##D##d, (adaptive<t::name##D##dOptions, D>(g)))
  ADJOIN_KIND(Linear,
              t::LinearOptions(g.get<int64_t>("in_features"), g.get<int64_t>("out_features")).bias(g.get<bool>("bias")))
  ADJOIN_KINDS_OF_DIMS(Conv, plain_conv)
  ADJOIN_KINDS_OF_DIMS(ConvTranspose, transposed_conv)
  ADJOIN_KINDS_OF_DIMS(MaxPool, max_pool)
  ADJOIN_KINDS_OF_DIMS(AvgPool, avg_pool)
  ADJOIN_PADS(ZeroPad)
  ADJOIN_PADS(ConstantPad)
  ADJOIN_PADS(ReflectionPad)
  ADJOIN_PADS(ReplicationPad)
  ADJOIN_KIND(Softmax, t::SoftmaxOptions(g.get<int64_t>("dim")))
  ADJOIN_KIND(Softmin, t::SoftminOptions(g.get<int64_t>("dim")))
  ADJOIN_KIND(LogSoftmax, t::LogSoftmaxOptions(g.get<int64_t>("dim")))
  ADJOIN_ADAPTIVE(AdaptiveMaxPool, 1)
  ADJOIN_ADAPTIVE(AdaptiveMaxPool, 2)
  ADJOIN_ADAPTIVE(AdaptiveMaxPool, 3)
  ADJOIN_ADAPTIVE(AdaptiveAvgPool, 1)
  ADJOIN_ADAPTIVE(AdaptiveAvgPool, 2)
  ADJOIN_ADAPTIVE(AdaptiveAvgPool, 3)
  ADJOIN_NORMS(BatchNorm, batch_norm)
  ADJOIN_NORMS(InstanceNorm, instance_norm)
  ADJOIN_KIND(LayerNorm, layer_norm(g))
  ADJOIN_KIND(GroupNorm, t::GroupNormOptions(g.get<int64_t>("num_groups"), g.get<int64_t>("num_channels"))
                             .eps(g.get<double>("eps"))
                             .affine(g.get<bool>("affine")))
  ADJOIN_KIND(Embedding, embedding(g))
  ADJOIN_KIND(Flatten, t::FlattenOptions().start_dim(g.get<int64_t>("start_dim")).end_dim(g.get<int64_t>("end_dim")))
#undef ADJOIN_KIND
#undef ADJOIN_KINDS_OF_DIMS
#undef ADJOIN_NORMS
#undef ADJOIN_PADS
#undef ADJOIN_ADAPTIVE
  return false;
}

}  // namespace adjoin::python
