#pragma once

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "adjoin/nn/distributed/network.hpp"
#include "examples/networks/plain_resnet.hpp"

/// The network of resnet.cpp, in float64. Its sequences are torch::nn's, which nn::distributed takes as they are; the residual
/// block between them is a module of its own.
namespace adjoin::example {

inline torch::nn::BatchNorm2d norm(int64_t channels) {
  return torch::nn::BatchNorm2d(channels);
}

template <class... Layers>
nn::Sequential cut(const nn::NetworkPlacement& on, const Layers&... layers) {
  torch::nn::Sequential model(layers...);
  model->to(at::kDouble);
  return nn::distributed(model, on);
}

/// relu(body(x) + shortcut(x))
class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(int64_t in, int64_t out, int64_t stride, const nn::NetworkPlacement& on)
      : body_(register_module(
            "body", cut(on, conv(in, out, 3, stride), norm(out), torch::nn::ReLU(), conv(out, out, 3, 1), norm(out)))) {
    if (in != out) shortcut_ = register_module("shortcut", cut(on, conv(in, out, 1, stride), norm(out)));
  }

  DistributedTensor forward(const DistributedTensor& x) {
    return map(body_(x) + (shortcut_ ? shortcut_(x) : x), at::relu);
  }

 private:
  nn::Sequential body_, shortcut_ = nullptr;
};
TORCH_MODULE(Block);

/// So many channels in its first layer.
inline nn::Sequential resnet18(const nn::NetworkPlacement& on, int64_t classes, int64_t width = 64) {
  nn::Sequential net(cut(on, conv(3, width, 7, 2), norm(width), torch::nn::ReLU(),
                         torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1))));
  for (int64_t in = width, out = width; out <= 8 * width; in = out, out *= 2) {
    net->push_back(Block(in, out, in == out ? 1 : 2, on));
    net->push_back(Block(out, out, 1, on));
  }
  net->push_back(cut(on, torch::nn::AdaptiveAvgPool2d(1), torch::nn::Flatten(), torch::nn::Linear(8 * width, classes)));
  return net;
}

}  // namespace adjoin::example
