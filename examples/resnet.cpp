// ResNet-18 on pictures of 33 x 33, whose sizes 17, 9, 5, 3 and 2 no number of workers divides: cut over space or over
// channels it learns as on one worker.
//
// Its sequences are torch::nn's, which nn::distributed takes as they are; the residual block between them is a module of
// this program.

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <CLI/App.hpp>

#include "examples/support/classifier.hpp"

using namespace adjoin;

namespace {

torch::nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

torch::nn::BatchNorm2d norm(int64_t channels) {
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

nn::Sequential resnet18(const nn::NetworkPlacement& on) {
  nn::Sequential net(cut(on, conv(3, 64, 7, 2), norm(64), torch::nn::ReLU(),
                         torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1))));
  for (int64_t in = 64, out = 64; out <= 512; in = out, out *= 2) {
    net->push_back(Block(in, out, in == out ? 1 : 2, on));
    net->push_back(Block(out, out, 1, on));
  }
  net->push_back(
      cut(on, torch::nn::AdaptiveAvgPool2d(1), torch::nn::Flatten(), torch::nn::Linear(512, example::kClasses)));
  return net;
}

}  // namespace

int main(int argc, char** argv) {
  example::ClassifierOptions options;
  return example::run(argc, argv,
                      {.text = "ResNet-18 on pictures of 33 x 33, cut over space or channels.",
                       .add_options = [&](CLI::App& app) { example::add_classifier_options(app, options); }},
                      [&](const Communicator& world, example::Report& report) {
                        example::train_classifier(world, options, 33, 33, resnet18, report);
                      });
}
