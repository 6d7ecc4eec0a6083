#pragma once

#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

/// The network of resnet.cpp (resnet.hpp), written for one worker with LibTorch alone.
namespace adjoin::example {

inline torch::nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// Two convolutions and a shortcut round them.
/// Shape: [batch, in, height, width] -> [batch, out, height / stride, width / stride], rounded up
class PlainBlockImpl : public torch::nn::Module {
 public:
  PlainBlockImpl(int64_t in, int64_t out, int64_t stride)
      : conv1_(register_module("conv1", conv(in, out, 3, stride))),
        norm1_(register_module("norm1", torch::nn::BatchNorm2d(out))),
        conv2_(register_module("conv2", conv(out, out, 3, 1))),
        norm2_(register_module("norm2", torch::nn::BatchNorm2d(out))) {
    if (in == out) return;
    shortcut_ = register_module("shortcut", conv(in, out, 1, stride));
    norm_ = register_module("norm", torch::nn::BatchNorm2d(out));
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = norm2_(conv2_(norm1_(conv1_(x)).relu()));
    return (y + (shortcut_ ? norm_(shortcut_(x)) : x)).relu();
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d norm1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d norm2_;
  torch::nn::Conv2d shortcut_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
};
TORCH_MODULE(PlainBlock);

/// A residual network of 18 layers.
/// Shape: [batch, 3, height, width] -> scores [batch, classes]
class PlainResNet18Impl : public torch::nn::Module {
 public:
  /// So many channels in its first layer.
  explicit PlainResNet18Impl(int64_t classes, int64_t width = 64)
      : conv_(register_module("conv", conv(3, width, 7, 2))),
        norm_(register_module("norm", torch::nn::BatchNorm2d(width))),
        blocks_(register_module("blocks", torch::nn::Sequential())),
        classes_(register_module("classes", torch::nn::Linear(8 * width, classes))) {
    for (int64_t in = width, out = width; out <= 8 * width; in = out, out *= 2) {
      blocks_->push_back(PlainBlock(in, out, in == out ? 1 : 2));
      blocks_->push_back(PlainBlock(out, out, 1));
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = at::max_pool2d(norm_(conv_(x)).relu(), /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    return classes_(at::adaptive_avg_pool2d(blocks_->forward(y), {1, 1}).flatten(1));
  }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d norm_;
  torch::nn::Sequential blocks_;
  torch::nn::Linear classes_;
};
TORCH_MODULE(PlainResNet18);

}  // namespace adjoin::example
