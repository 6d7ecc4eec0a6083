#pragma once

#include <torch/nn/modules/container/any.h>

#include <optional>
#include <string>

#include "adjoin/nn/distributed/network.hpp"

namespace adjoin::nn {

/// The layer that does on a placement what a layer of torch::nn does; its weights are not yet set. Empty for a layer that is
/// not supported. `place` is its place in the network, which names its dropout.
/// Throws: InvalidArgument for options that the twin does not have
std::optional<torch::nn::AnyModule> twin_of(const torch::nn::Module& layer, const NetworkPlacement& placement,
                                            const std::string& place);

}  // namespace adjoin::nn
