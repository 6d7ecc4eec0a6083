// VGG-11 on pictures of 37 x 35: a plain torch::nn::Sequential, cut over space or over channels in one line.

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <CLI/App.hpp>

#include "examples/support/classifier.hpp"

using namespace adjoin;

namespace {

torch::nn::Sequential vgg11() {
  torch::nn::Sequential net;
  int64_t channels = 3;
  for (const auto& stage : {std::vector<int64_t>{64}, {128}, {256, 256}, {512, 512}, {512, 512}}) {
    for (const int64_t out : stage) {
      net->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, out, 3).padding(1)));
      net->push_back(torch::nn::ReLU());
      channels = out;
    }
    net->push_back(torch::nn::MaxPool2d(2));  // 37 x 35 becomes 18 x 17, 9 x 8, 4 x 4, 2 x 2, 1 x 1
  }
  net->push_back(torch::nn::Flatten());
  for (const int64_t features : {int64_t{4096}, int64_t{4096}}) {
    net->push_back(torch::nn::Linear(channels, features));
    net->push_back(torch::nn::ReLU());
    channels = features;
  }
  net->push_back(torch::nn::Linear(channels, example::kClasses));
  net->to(at::kDouble);
  return net;
}

}  // namespace

int main(int argc, char** argv) {
  example::ClassifierOptions options;
  return example::run(argc, argv,
                      {.text = "VGG-11 on pictures of 37 x 35, cut over space or channels.",
                       .add_options = [&](CLI::App& app) { example::add_classifier_options(app, options); }},
                      [&](const Communicator& world, example::Report& report) {
                        const auto cut = [](const nn::NetworkPlacement& on) { return nn::distributed(vgg11(), on); };
                        example::train_classifier(world, options, 37, 35, cut, report);
                      });
}
