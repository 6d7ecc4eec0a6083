#include "adjoin/nn/distributed/twin.hpp"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/padding.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/upsampling.h>

#include <memory>
#include <typeinfo>

#include "adjoin/nn/distributed/batch_norm.hpp"
#include "adjoin/nn/distributed/conv.hpp"
#include "adjoin/nn/distributed/dropout.hpp"
#include "adjoin/nn/distributed/embedding.hpp"
#include "adjoin/nn/distributed/layer_norm.hpp"
#include "adjoin/nn/distributed/linear.hpp"
#include "adjoin/nn/distributed/pad.hpp"
#include "adjoin/nn/distributed/pool.hpp"
#include "adjoin/nn/distributed/softmax.hpp"
#include "adjoin/nn/distributed/upsample.hpp"

namespace adjoin::nn {
namespace {

namespace t = torch::nn;
using Axes = std::vector<std::string>;
using t::AnyModule;

/// The type and device of the layer's tensors.
at::TensorOptions numbers_of(const t::Module& layer) {
  for (const at::Tensor& tensor : layer.parameters()) return tensor.options().requires_grad(false);
  for (const at::Tensor& tensor : layer.buffers()) return tensor.options();
  return at::kFloat;
}

/// A weight that is cut along one dim and copied along other axes.
Layout weight_cut(const NetworkPlacement& placement, const std::vector<int64_t>& shape, int64_t dim, const Axes& axes,
                  const Axes& copied) {
  const GridShape& grid = placement.grid.shape();
  std::map<std::string, Kind> kinds;
  for (const std::string& axis : copied) kinds[axis] = Kind::copied;
  std::vector<Layout::Cut> cuts;
  int parts = 1;
  for (const std::string& axis : axes) parts *= grid.axis_size(axis);
  if (!axes.empty()) cuts.push_back({Split::balanced(shape[static_cast<size_t>(dim)], parts, dim), axes});
  return Layout(grid, shape, std::move(cuts), std::move(kinds));
}

/// The dim of a weight [a, b, …] to cut: the larger one, so that the other, smaller side is moved.
int64_t larger_dim(const std::vector<int64_t>& shape) {
  return shape[0] >= shape[1] ? 0 : 1;
}

LayoutRule over_space(const NetworkPlacement& placement, size_t dims) {
  return [placement, dims](const std::vector<int64_t>& shape) { return placement.of_space(shape, dims); };
}

LayoutRule over_features(const NetworkPlacement& placement) {
  return [placement](const std::vector<int64_t>& shape) { return placement.of_features(shape); };
}

LayerLayouts conv_placement(const NetworkPlacement& placement, const ConvGeometry& geometry,
                            at::TensorOptions numbers) {
  const std::vector<int64_t> shape = geometry.weight_shape();
  const size_t dims = geometry.windows.size();
  Axes copied = placement.batch;
  for (size_t dim = 0; dim < dims && dim < placement.space.size(); ++dim)
    copied.insert(copied.end(), placement.space[dim].begin(), placement.space[dim].end());
  const int64_t cut = geometry.groups > 1 ? 0 : larger_dim(shape);  // dim 1 counts within a group
  return {weight_cut(placement, shape, cut, placement.channels, copied), over_space(placement, dims), numbers};
}

/// The options that both kinds of convolutions have.
template <class Options, size_t D>
Options options_of_conv(const t::detail::ConvNdOptions<D>& o) {
  return Options(o.in_channels(), o.out_channels(), o.kernel_size())
      .stride(o.stride())
      .dilation(o.dilation())
      .groups(o.groups())
      .bias(o.bias())
      .padding_mode(o.padding_mode());
}

template <class Twin, class Options>
AnyModule conv_twin(const Options& options, const t::Module& layer, const NetworkPlacement& placement) {
  return AnyModule(Twin(options, conv_placement(placement, geometry_of(options), numbers_of(layer)), placement.grid));
}

/// A weight that was assigned from another layer is shared with it; twins each have their own weights, so it is refused.
template <class Layer>
void check_own_weight(const Layer& layer) {
  if constexpr (requires { layer.weight; }) {
    const auto own = layer.named_parameters(/*recurse=*/false);
    const at::Tensor* weight = own.find("weight");
    require(!layer.weight.defined() || (weight != nullptr && layer.weight.is_same(*weight)),
            "expected the layer's own weight, got a tensor that it may share with another layer");
  }
}

/// Calls `make` if a layer has exactly this type; a derived type might compute something else.
template <class Layer, class Make>
void if_is(const t::Module& layer, std::optional<AnyModule>& twin, const Make& make) {
  if (twin || typeid(layer) != typeid(Layer)) return;
  check_own_weight(static_cast<const Layer&>(layer));
  twin.emplace(make(static_cast<const Layer&>(layer)));
}

template <size_t D, class Conv, class Transposed, class Twin, class TransposedTwin>
void try_convs(const t::Module& layer, std::optional<AnyModule>& twin, const NetworkPlacement& placement) {
  if_is<Conv>(layer, twin, [&](const Conv& conv) {
    const auto& o = conv.options;
    return conv_twin<Twin>(options_of_conv<t::ConvOptions<D>>(o).padding(o.padding()), conv, placement);
  });
  if_is<Transposed>(layer, twin, [&](const Transposed& conv) {
    const auto& o = conv.options;
    const auto options = options_of_conv<t::ConvTransposeOptions<D>>(o)
                             .padding(std::get<torch::ExpandingArray<D>>(o.padding()))
                             .output_padding(o.output_padding());
    return conv_twin<TransposedTwin>(options, conv, placement);
  });
}

/// A layer of space without a weight: a pooling or a padding.
template <size_t D, class Layer, class Twin>
void try_pool(const t::Module& layer, std::optional<AnyModule>& twin, const NetworkPlacement& placement) {
  if_is<Layer>(layer, twin, [&](const Layer& pool) {
    return AnyModule(Twin(pool.options, placement.grid, over_space(placement, D)));
  });
}
template <size_t, class Layer, class Twin>
void try_channel_norm(const t::Module& layer, std::optional<AnyModule>& twin, const NetworkPlacement& placement) {
  if_is<Layer>(layer, twin, [&](const Layer& norm) {
    const Layout channels = weight_cut(placement, {norm.options.num_features()}, 0, placement.channels, {});
    return AnyModule(Twin(norm.options, LayerLayouts{.weight = channels, .tensor = numbers_of(norm)}, placement.grid));
  });
}

template <class Layer, class Twin>
void try_sample_norm(const t::Module& layer, std::optional<AnyModule>& twin, const NetworkPlacement& placement) {
  if_is<Layer>(layer, twin, [&](const Layer& norm) {
    return AnyModule(Twin(norm.options, LayerLayouts{.tensor = numbers_of(norm)}, placement.grid));
  });
}

template <class... Layers>
void try_elementwise(const t::Module& layer, std::optional<AnyModule>& twin) {
  const auto make = []<class Layer>(const Layer& function) {
    std::shared_ptr<Layer> own;
    if constexpr (requires { function.options; }) {
      auto options = function.options;
      if constexpr (requires { options.inplace(false); }) options.inplace(false);  // its input may be another's output
      own = std::make_shared<Layer>(options);
    } else {
      own = std::make_shared<Layer>();
    }
    return AnyModule(Elementwise([own](const at::Tensor& x) { return own->forward(x); }));
  };
  (if_is<Layers>(layer, twin, make), ...);
}

#define ADJOIN_TRY(kind, name)                                      \
  try_##kind<1, t::name##1dImpl, name##1d>(layer, twin, placement); \
  try_##kind<2, t::name##2dImpl, name##2d>(layer, twin, placement); \
  try_##kind<3, t::name##3dImpl, name##3d>(layer, twin, placement)

std::optional<AnyModule> windowed(const t::Module& layer, const NetworkPlacement& placement) {
  std::optional<AnyModule> twin;
  try_convs<1, t::Conv1dImpl, t::ConvTranspose1dImpl, Conv1d, ConvTranspose1d>(layer, twin, placement);
  try_convs<2, t::Conv2dImpl, t::ConvTranspose2dImpl, Conv2d, ConvTranspose2d>(layer, twin, placement);
  try_convs<3, t::Conv3dImpl, t::ConvTranspose3dImpl, Conv3d, ConvTranspose3d>(layer, twin, placement);
  ADJOIN_TRY(pool, MaxPool);
  ADJOIN_TRY(pool, AvgPool);
  ADJOIN_TRY(pool, AdaptiveMaxPool);
  ADJOIN_TRY(pool, AdaptiveAvgPool);
  ADJOIN_TRY(pool, ZeroPad);
  ADJOIN_TRY(pool, ConstantPad);
  ADJOIN_TRY(pool, ReflectionPad);
  ADJOIN_TRY(pool, ReplicationPad);
  if_is<t::UpsampleImpl>(layer, twin, [&](const t::UpsampleImpl& upsample) {
    const LayoutRule output = [placement](const std::vector<int64_t>& shape) {
      return placement.of_space(shape, shape.size() - 2);
    };
    return AnyModule(Upsample(upsample.options, placement.grid, output));
  });
  return twin;
}

std::optional<AnyModule> norm(const t::Module& layer, const NetworkPlacement& placement) {
  std::optional<AnyModule> twin;
  ADJOIN_TRY(channel_norm, BatchNorm);
  ADJOIN_TRY(channel_norm, InstanceNorm);
  try_sample_norm<t::LayerNormImpl, LayerNorm>(layer, twin, placement);
  try_sample_norm<t::GroupNormImpl, GroupNorm>(layer, twin, placement);
  return twin;
}

std::optional<AnyModule> of_features(const t::Module& layer, const NetworkPlacement& placement) {
  std::optional<AnyModule> twin;
  if_is<t::LinearImpl>(layer, twin, [&](const t::LinearImpl& linear) {
    const std::vector<int64_t> shape = linear.weight.sizes().vec();
    const Layout weight = weight_cut(placement, shape, larger_dim(shape), placement.feature_axes(), placement.batch);
    return AnyModule(
        Linear(linear.options, LayerLayouts{weight, over_features(placement), numbers_of(linear)}, placement.grid));
  });
  if_is<t::EmbeddingImpl>(layer, twin, [&](const t::EmbeddingImpl& embedding) {
    const Layout weight =
        weight_cut(placement, embedding.weight.sizes().vec(), 1, placement.feature_axes(), placement.batch);
    t::EmbeddingOptions options = embedding.options;
    options._weight(at::Tensor());  // it is set later, with the state
    return AnyModule(
        Embedding(options, LayerLayouts{weight, over_features(placement), numbers_of(embedding)}, placement.grid));
  });
  const auto of_options = [&]<class Layer, class Twin>() {
    if_is<Layer>(layer, twin, [&](const Layer& same) { return AnyModule(Twin(same.options, placement.grid)); });
  };
  of_options.template operator()<t::FlattenImpl, Flatten>();
  of_options.template operator()<t::SoftmaxImpl, Softmax>();
  of_options.template operator()<t::SoftminImpl, Softmin>();
  of_options.template operator()<t::LogSoftmaxImpl, LogSoftmax>();
  if_is<t::Softmax2dImpl>(
      layer, twin, [&](const t::Softmax2dImpl&) { return AnyModule(Softmax(SoftmaxOptions(-3), placement.grid)); });
  return twin;
}

std::optional<AnyModule> elementwise(const t::Module& layer, const std::string& place) {
  std::optional<AnyModule> twin;
  try_elementwise<t::IdentityImpl, t::ReLUImpl, t::ReLU6Impl, t::LeakyReLUImpl, t::ELUImpl, t::SELUImpl, t::CELUImpl,
                  t::GELUImpl, t::SiLUImpl, t::MishImpl, t::SigmoidImpl, t::LogSigmoidImpl, t::TanhImpl,
                  t::TanhshrinkImpl, t::HardtanhImpl, t::HardshrinkImpl, t::SoftplusImpl, t::SoftshrinkImpl,
                  t::SoftsignImpl, t::ThresholdImpl>(layer, twin);
  if_is<t::DropoutImpl>(layer, twin, [&](const t::DropoutImpl& d) { return AnyModule(Dropout(d.options, place)); });
  if_is<t::Dropout2dImpl>(layer, twin,
                          [&](const t::Dropout2dImpl& d) { return AnyModule(Dropout2d(d.options, place)); });
  if_is<t::Dropout3dImpl>(layer, twin,
                          [&](const t::Dropout3dImpl& d) { return AnyModule(Dropout3d(d.options, place)); });
  return twin;
}

}  // namespace

std::optional<AnyModule> twin_of(const t::Module& layer, const NetworkPlacement& placement, const std::string& place) {
  if (auto twin = windowed(layer, placement)) return twin;
  if (auto twin = norm(layer, placement)) return twin;
  if (auto twin = of_features(layer, placement)) return twin;
  return elementwise(layer, place);
}

}  // namespace adjoin::nn
