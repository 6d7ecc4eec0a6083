#pragma once

#include <string>
#include <vector>

#include "adjoin/nn/distributed/sequential.hpp"

namespace adjoin::nn {

/// How a whole network is cut: over which axes of a grid batch, channels and each dim of space are. Along the axes that it
/// does not name all workers do the same.
struct NetworkPlacement {
  Grid grid;
  std::vector<std::string> batch = {}, channels = {};
  std::vector<std::vector<std::string>> space = {};  ///< of each dim of space, the first of which is dim 2

  /// Where [batch, channels, *space] lies, or the same without the batch, in balanced parts.
  Layout of_space(const std::vector<int64_t>& shape, size_t space_dims) const;
  /// Where [batch, *, features] lies, or features alone: as there is no space, its axes cut the features too.
  Layout of_features(const std::vector<int64_t>& shape) const;
  std::vector<std::string> feature_axes() const;
};

/// The same network on a layout, with the weights, buffers and names that the model has on worker 0 of the world, in its
/// mode, training or not, and with the same parameters asking for gradients:
///
///     nn::Sequential net = nn::distributed(model, {.grid = grid, .space = {{"y"}, {"x"}}});  // cut over space
///
/// It holds linear, convolutions and transposed ones, poolings, adaptive ones, upsampling, batch, instance, layer and group
/// norms, embedding, dropout, Flatten, and elementwise functions without weights; and modules derived from Sequential,
/// which torch::nn wants for one within another, as the sequences that they hold. A layer that stands in several places is
/// one layer there too.
///
/// Outputs lie as the placement says. Weights lie where channels, or features, are cut: of inputs and outputs the more
/// numerous stay where they are, the others move; along the axes of batch and space they are copied. Before `Flatten`
/// space moves to channels. Dropout is named by its place, "3" or "1.2".
///
/// Called by all workers of the world with models of the same layers.
/// Cost:   an all-gather of 8 bytes a worker, and a move of every weight from worker 0
/// Throws: InvalidArgument on all of them for models that differ, for an axis that is not the grid's or named twice, for a layer that it does not
///         know, or whose options its twin does not have, by its name and its place, or for a weight that
///         two layers share
Sequential distributed(const torch::nn::SequentialImpl& model, const NetworkPlacement& placement);
inline Sequential distributed(const torch::nn::Sequential& model, const NetworkPlacement& placement) {
  return distributed(*model, placement);
}

}  // namespace adjoin::nn
