#pragma once

#include <string>
#include <vector>

#include "adjoin/nn/distributed/sequential.hpp"

namespace adjoin::nn {

/// How a whole network is cut: which axes of a grid cut the batch, the channels and each dim of space. Workers along axes that
/// are not named here all do the same work.
struct NetworkPlacement {
  Grid grid;
  std::vector<std::string> batch = {}, channels = {};
  std::vector<std::vector<std::string>> space = {};  ///< for each dim of space, beginning with dim 2

  /// The layout of [batch, channels, *space], or of the same without the batch, in balanced parts.
  Layout of_space(const std::vector<int64_t>& shape, size_t space_dims) const;
  /// The layout of [batch, *, features], or of features alone. As there is no space, the axes of space cut the features too.
  Layout of_features(const std::vector<int64_t>& shape) const;
  std::vector<std::string> feature_axes() const;
  /// Throws: InvalidArgument for an axis that the grid lacks, or that is named twice
  void check_axes() const;
};

/// The same network on a placement. Weights, buffers and names are those of the model on worker 0 of the world, and so are its
/// mode (training or evaluation) and which parameters require gradients:
///
///     nn::Sequential net = nn::distributed(model, {.grid = grid, .space = {{"y"}, {"x"}}});  // cut over space
///
/// The model may contain linear layers, convolutions and transposed ones, poolings and adaptive ones, upsampling, batch,
/// instance, layer and group norms, embedding, dropout, paddings and crops, softmax, Flatten, and elementwise functions without
/// weights. A sequence within another is an InnerSequential. A layer that occurs in several places is one layer in the result
/// too.
///
/// Outputs have the layouts that the placement says. Weights are cut where channels or features are cut: of a layer's inputs
/// and outputs the more numerous stay where they are and the others move. Weights are copied along the axes of batch and space.
/// Before `Flatten` the axes of space move to channels. Dropout is named by its place in the network, "3" or "1.2".
///
/// All workers of the world call it, with models of the same layers.
/// Cost:   an all-gather of 8 bytes a worker, and a move of every weight from worker 0
/// Throws: InvalidArgument on all workers for models that differ, for an axis that is not in the grid or is named twice, for a
///         layer that is not supported or has options that its twin does not have (the error gives its name and place), for
///         another class derived from Sequential, for a weight that two layers share, and for a weight with a hook
Sequential distributed(const torch::nn::SequentialImpl& model, const NetworkPlacement& placement);
inline Sequential distributed(const torch::nn::Sequential& model, const NetworkPlacement& placement) {
  return distributed(*model, placement);
}

}  // namespace adjoin::nn
