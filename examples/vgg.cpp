// VGG-11 on pictures of 37 x 35: a plain torch::nn::Sequential, cut over space or over channels in one line.

#include <CLI/App.hpp>

#include "examples/networks/vgg.hpp"
#include "examples/support/classifier.hpp"

using namespace adjoin;

int main(int argc, char** argv) {
  example::ClassifierOptions options;
  return example::run(argc, argv,
                      {.text = "VGG-11 on pictures of 37 x 35, cut over space or channels.",
                       .add_options = [&](CLI::App& app) { example::add_classifier_options(app, options); }},
                      [&](const Communicator& world, example::Report& report) {
                        const auto cut = [](const nn::NetworkPlacement& on) {
                          return nn::distributed(example::vgg11(example::kClasses), on);
                        };
                        example::train_classifier(world, options, 37, 35, cut, report);
                      });
}
