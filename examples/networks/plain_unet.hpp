#pragma once

#include <ATen/ATen.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>

/// The network of unet.cpp (unet.hpp), written for one worker with LibTorch alone.
namespace adjoin::example {

/// Shape: [batch, 1, height, width], both multiples of 4 -> scores [batch, classes, height, width]
class PlainUNetImpl : public torch::nn::Module {
 public:
  /// So many channels at the finest resolution.
  explicit PlainUNetImpl(int64_t classes, int64_t width = 16)
      : fine_(register_module("fine", double_conv(1, width))),
        middle_(register_module("middle", double_conv(width, 2 * width))),
        coarse_(register_module("coarse", double_conv(2 * width, 4 * width))),
        to_middle_(register_module("to_middle", up(4 * width, 2 * width))),
        middle_again_(register_module("middle_again", double_conv(4 * width, 2 * width))),
        to_fine_(register_module("to_fine", up(2 * width, width))),
        fine_again_(register_module("fine_again", double_conv(2 * width, width))),
        classes_(register_module(
            "classes", torch::nn::Conv2d(torch::nn::Conv2dOptions(width, classes, /*kernel_size=*/1).bias(false)))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor fine = fine_->forward(x), middle = middle_->forward(at::max_pool2d(fine, 2)),
                     coarse = coarse_->forward(at::max_pool2d(middle, 2)),
                     both = middle_again_->forward(at::cat({to_middle_(coarse), middle}, kChannelDim));
    return classes_(fine_again_->forward(at::cat({to_fine_(both), fine}, kChannelDim)));
  }

 private:
  static constexpr int64_t kChannelDim = 1;

  static torch::nn::Sequential double_conv(int64_t in, int64_t out) {
    torch::nn::Sequential layers;
    for (const int64_t channels : {in, out}) {
      layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, out, 3).padding(1).bias(false)));
      layers->push_back(torch::nn::BatchNorm2d(out));
      layers->push_back(torch::nn::ReLU());
    }
    return layers;
  }
  static torch::nn::ConvTranspose2d up(int64_t in, int64_t out) {
    return torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(in, out, 2).stride(2).bias(false));
  }

  torch::nn::Sequential fine_, middle_, coarse_;
  torch::nn::ConvTranspose2d to_middle_;
  torch::nn::Sequential middle_again_;
  torch::nn::ConvTranspose2d to_fine_;
  torch::nn::Sequential fine_again_;
  torch::nn::Conv2d classes_;
};
TORCH_MODULE(PlainUNet);

}  // namespace adjoin::example
