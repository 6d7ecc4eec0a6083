#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "adjoin/nn/sequence/tile.hpp"

namespace adjoin::nn {

/// Tiles of several samples, of one pair of pieces' numbers and of equal padded sizes, which go through LibTorch's kernel together in
/// a fixed order: a tile's bits do not depend on the others. Rows and features are padded to multiples of kPaddedTo with zeros,
/// and each head's rows follow one another in memory, as the kernel's bits depend on both.
///
/// Inputs and results have the rows of all tiles, one after another.
class TileBatch {
 public:
  /// Without `together` it has one tile, for which nn::attend serves: with dropout or a mask, for scales that are not positive, and
  /// for numbers that are not finite.
  TileBatch(std::vector<Tile> tiles, bool together);

  const Tile& first() const { return tiles_.front(); }
  /// The rows among those of the queries' worker, and of the keys'.
  const at::Tensor& query_rows() const { return queries_.rows; }
  const at::Tensor& key_rows() const { return keys_.rows; }

  /// As nn::attend.
  PartialAttention attend(const TileInputs& x, const AttentionOptions& options) const;
  TileInputs attend_backward(const TileInputs& x, const TileResults& y, const AttentionOptions& options) const;

 private:
  struct Side {
    int64_t padded = 0;       // rows of each tile
    at::Tensor rows, places;  // of all tiles: among the worker's rows, and among the padded ones
  };
  Side side_of(Range Tile::*tokens, int64_t Tile::*first_row) const;
  at::Tensor pack(const at::Tensor& x, const Side& side) const;
  at::Tensor packed_queries(const at::Tensor& x, int64_t h) const;
  at::Tensor packed_keys(const at::Tensor& x, int64_t each) const;
  at::Tensor unpacked_queries(const at::Tensor& y) const;
  at::Tensor unpacked_keys(const at::Tensor& y, int64_t each, int64_t size) const;
  std::optional<at::Tensor> mask(const at::Tensor& q) const;

  std::vector<Tile> tiles_;
  bool together_;
  Side queries_, keys_;
};

/// Tiles in as few batches as there may be: all pieces of a sample have the same other samples beside them.
std::vector<TileBatch> batches_of(const std::vector<Tile>& tiles, const Rows& rows, int64_t blocks, bool together);

}  // namespace adjoin::nn
