#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "adjoin/nn/sequence/tile.hpp"

namespace adjoin::nn {

/// Tiles of several samples, of one pair of pieces' numbers and of equal padded sizes, which go through LibTorch's kernel together in
/// a fixed order: a tile's bits do not depend on the others. What the kernel gets and gives is packed: rows and features are padded
/// to multiples of kPaddedTo with zeros, and each head's rows follow one another in memory, as the kernel's bits depend on both.
class TileBatch {
 public:
  /// Without `together` it has one tile, for which nn::attend serves, and packed is what nn::attend takes: with dropout or a mask, and
  /// for scales that are not positive.
  TileBatch(std::vector<Tile> tiles, bool together);

  const Tile& first() const { return tiles_.front(); }
  /// The number of keys, and which of their worker's rows is the first; and of the queries.
  int64_t keys() const { return keys_.rows.size(0); }
  int64_t first_query() const { return first().query_row; }
  int64_t first_key() const { return first().key_row; }

  /// These queries' rows of a tensor of all of a worker's rows [rows, heads, *], for `h` key heads.
  at::Tensor pack_queries(const at::Tensor& x, int64_t h) const;
  /// These keys' rows of a tensor of all of a worker's rows [rows, h, size], each head as often as query heads share it.
  at::Tensor pack_keys(const at::Tensor& x, int64_t each) const;
  /// The inverses: for what attend and attend_backward give. That of keys is [keys, h, size], and packed again by the third one.
  void unpack_queries(const at::Tensor& packed, const at::Tensor& into) const;
  at::Tensor unpack_keys(const at::Tensor& packed, int64_t size) const;
  at::Tensor pack_gradients(const at::Tensor& of_keys) const;
  /// [keys, h, size] among all of a worker's rows.
  void put_keys(const at::Tensor& of_keys, const at::Tensor& into) const;

  /// As nn::attend, of packed tensors.
  PartialAttention attend(const TileInputs& x, const AttentionOptions& options) const;
  TileInputs attend_backward(const TileInputs& x, const TileResults& y, const AttentionOptions& options) const;

 private:
  struct Side {
    int64_t padded = 0;       // rows of each tile
    at::Tensor rows, places;  // of all tiles: among the worker's rows, and among the padded ones
  };
  Side side_of(Range Tile::*tokens, int64_t Tile::*first_row) const;
  at::Tensor padded(const at::Tensor& x, const Side& side) const;
  std::optional<at::Tensor> mask(const at::Tensor& q) const;

  std::vector<Tile> tiles_;
  bool together_;
  Side queries_, keys_;
};

/// Tiles in as few batches as there may be: all pieces of a sample have the same other samples beside them.
std::vector<TileBatch> batches_of(const std::vector<Tile>& tiles, const TokenRows& rows, int64_t blocks, bool together);

}  // namespace adjoin::nn
