#pragma once

#include "adjoin/nn/sequence/tile.hpp"

namespace adjoin::nn {

// attend() and attend_backward() of LibTorch's operations alone, on devices, whose fused kernels do not serve all types and options. A
// tile's scores are a tensor. NaN passes through.

PartialAttention attend_composed(const TileInputs& x, const Tile& tile, const AttentionOptions& options);

TileInputs attend_composed_backward(const TileInputs& x, const TileResults& y, const Tile& tile,
                                    const AttentionOptions& options);

}  // namespace adjoin::nn
