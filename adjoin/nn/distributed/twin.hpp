#pragma once

#include <torch/nn/modules/container/any.h>

#include <optional>
#include <string>

#include "adjoin/nn/distributed/network.hpp"

namespace adjoin::nn {

/// The layer that does on a placement what one of torch::nn does, with weights yet to be given; none for one that it does
/// not know. `place` is its place in the network, by which dropout draws.
/// Throws: InvalidArgument for options that the twin does not have
std::optional<torch::nn::AnyModule> twin_of(const torch::nn::Module& layer, const NetworkPlacement& placement,
                                            const std::string& place);

}  // namespace adjoin::nn
