#pragma once

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>

#include "adjoin/nn/distributed/network.hpp"

/// The network of unet.cpp: pictures of one channel to scores of classes of each pixel.
namespace adjoin::example {

class UNetImpl : public torch::nn::Module {
 public:
  /// So many channels at the finest resolution.
  UNetImpl(const nn::NetworkPlacement& on, int64_t classes, int64_t width = 16)
      : fine_(part("fine", double_conv(1, width), on)),
        middle_(part("middle", down(width, 2 * width), on)),
        coarse_(part("coarse", down(2 * width, 4 * width), on)),
        to_middle_(part("to_middle", up(4 * width, 2 * width), on)),
        middle_again_(part("middle_again", double_conv(4 * width, 2 * width), on)),
        to_fine_(part("to_fine", up(2 * width, width), on)),
        classes_(part("classes", scores(width, classes), on)) {}

  DistributedTensor forward(const DistributedTensor& x) {
    const DistributedTensor fine = fine_(x), middle = middle_(fine);
    const DistributedTensor both = middle_again_(cat(to_middle_(coarse_(middle)), middle, kChannelDim));
    return classes_(cat(to_fine_(both), fine, kChannelDim));
  }

 private:
  static constexpr int64_t kChannelDim = 1;
  using Layers = torch::nn::Sequential;

  static Layers double_conv(int64_t in, int64_t out) {
    Layers layers;
    for (const int64_t channels : {in, out}) {
      layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, out, 3).padding(1).bias(false)));
      layers->push_back(torch::nn::BatchNorm2d(out));
      layers->push_back(torch::nn::ReLU());
    }
    return layers;
  }
  static Layers down(int64_t in, int64_t out) {
    Layers layers{torch::nn::MaxPool2d(2)};
    layers->extend(*double_conv(in, out));
    return layers;
  }
  static Layers up(int64_t in, int64_t out) {
    return Layers(torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(in, out, 2).stride(2).bias(false)));
  }
  static Layers scores(int64_t width, int64_t classes) {
    Layers layers = double_conv(2 * width, width);
    layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(width, classes, 1).bias(false)));
    return layers;
  }
  nn::Sequential part(const std::string& name, const Layers& layers, const nn::NetworkPlacement& on) {
    return register_module(name, nn::distributed(layers, on));
  }

  nn::Sequential fine_, middle_, coarse_, to_middle_, middle_again_, to_fine_, classes_;
};
TORCH_MODULE(UNet);

}  // namespace adjoin::example
