#pragma once

#include "adjoin/nn/sequence/tile.hpp"

namespace adjoin::nn {

// attend() and attend_backward() with dropout, which LibTorch's fused kernel lacks: here a tile's scores are a tensor.

PartialAttention attend_dropped(const TileInputs& x, const Tile& tile, const AttentionOptions& options);

TileInputs attend_dropped_backward(const TileInputs& x, const TileResults& y, const Tile& tile,
                                   const AttentionOptions& options);

}  // namespace adjoin::nn
