// ResNet-18 on pictures of 33 x 33, whose sizes 17, 9, 5, 3 and 2 no number of workers divides: cut over space or over
// channels it learns as on one worker.

#include <CLI/App.hpp>

#include "examples/networks/resnet.hpp"
#include "examples/support/classifier.hpp"

using namespace adjoin;

int main(int argc, char** argv) {
  example::ClassifierOptions options;
  return example::run(argc, argv,
                      {.text = "ResNet-18 on pictures of 33 x 33, cut over space or channels.",
                       .add_options = [&](CLI::App& app) { example::add_classifier_options(app, options); }},
                      [&](const Communicator& world, example::Report& report) {
                        const auto cut = [](const nn::NetworkPlacement& on) {
                          return example::resnet18(on, example::kClasses);
                        };
                        example::train_classifier(world, options, 33, 33, cut, report);
                      });
}
