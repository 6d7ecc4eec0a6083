#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "adjoin/nn/distributed/network.hpp"
#include "examples/support/example.hpp"

/// What resnet and vgg share: a network of pictures learns by heart the few that it is shown, in float64.
namespace adjoin::example {

struct ClassifierOptions {
  bool over_channels = false;  ///< cut over channels, else over space
  int64_t steps = 20;
};

/// Adds --cut and --steps.
void add_classifier_options(CLI::App& app, ClassifierOptions& options);

constexpr int64_t kClasses = 10;

/// Trains what `make` makes on the placement that the options ask for: batches of 4 pictures of 3 channels, SGD with a rate
/// of 0.01, weights by He's rule, and Glorot's for linear layers, from one seed: the same for every number of workers.
void train_classifier(const Communicator& world, const ClassifierOptions& options, int64_t height, int64_t width,
                      const std::function<nn::Sequential(const nn::NetworkPlacement& on)>& make, Report& report);

}  // namespace adjoin::example
