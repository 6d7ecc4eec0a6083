#pragma once

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

namespace adjoin::example {

/// The network of vgg.cpp, in float64: so many channels in its first layer, and features between its linear layers.
inline torch::nn::Sequential vgg11(int64_t classes, int64_t width = 64, int64_t features = 4096) {
  torch::nn::Sequential net;
  int64_t channels = 3;
  for (const auto& stage : {std::vector<int64_t>{1}, {2}, {4, 4}, {8, 8}, {8, 8}}) {
    for (const int64_t times : stage) {
      net->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, times * width, 3).padding(1)));
      net->push_back(torch::nn::ReLU());
      channels = times * width;
    }
    net->push_back(torch::nn::MaxPool2d(2));  // 37 x 35 becomes 18 x 17, 9 x 8, 4 x 4, 2 x 2, 1 x 1
  }
  net->push_back(torch::nn::Flatten());
  for (int layer = 0; layer < 2; ++layer) {
    net->push_back(torch::nn::Linear(channels, features));
    net->push_back(torch::nn::ReLU());
    channels = features;
  }
  net->push_back(torch::nn::Linear(channels, classes));
  net->to(at::kDouble);
  return net;
}

}  // namespace adjoin::example
