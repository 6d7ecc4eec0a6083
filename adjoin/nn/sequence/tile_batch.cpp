#include "adjoin/nn/sequence/tile_batch.hpp"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace adjoin::nn {
namespace {

int64_t padded_size(int64_t size) {
  return (size + kPaddedTo - 1) / kPaddedTo * kPaddedTo;
}

/// The padded size of a sample's last block, and how many blocks before have a larger one.
std::pair<int64_t, int64_t> sizes_of_blocks(int64_t length, int64_t blocks) {
  const int64_t least = length / blocks, padded = padded_size(least);
  return {padded, padded_size(least + 1) > padded ? length % blocks : 0};
}

}  // namespace

TileBatch::TileBatch(std::vector<Tile> tiles, bool together)
    : tiles_(std::move(tiles)),
      together_(together),
      queries_(side_of(&Tile::queries, &Tile::query_row)),
      keys_(side_of(&Tile::keys, &Tile::key_row)) {}

TileBatch::Side TileBatch::side_of(Range Tile::*tokens, int64_t Tile::*first_row) const {
  Side side{.padded = padded_size((tiles_.front().*tokens).size()), .rows = {}, .places = {}};
  std::vector<int64_t> rows, places;
  for (size_t i = 0; i < tiles_.size(); ++i)
    for (int64_t token = 0; token < (tiles_[i].*tokens).size(); ++token) {
      rows.push_back(tiles_[i].*first_row + token);
      places.push_back(static_cast<int64_t>(i) * side.padded + token);
    }
  side.rows = at::tensor(rows, at::kLong);
  side.places = at::tensor(places, at::kLong);
  return side;
}

/// [rows, heads, *] -> [tiles, padded rows, heads, *], in the kernel's type.
at::Tensor TileBatch::pack(const at::Tensor& x, const Side& side) const {
  const auto tiles = std::ssize(tiles_);
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = tiles * side.padded;
  const at::Tensor of_kernel = x.to(partial_type(x));
  const at::Tensor all =
      x.size(0) == shape[0] ? of_kernel : at::zeros(shape, of_kernel.options()).index_copy_(0, side.places, of_kernel);
  return all.unflatten(0, {tiles, side.padded});
}

/// [rows, h * each, *] -> [tiles * each, h, padded rows, *]
at::Tensor TileBatch::packed_queries(const at::Tensor& x, int64_t h) const {
  const at::Tensor of_heads = pack(x, queries_).unflatten(2, {h, x.size(1) / h}).transpose(1, 3).flatten(0, 1);
  return x.dim() == 2 ? of_heads.contiguous()
                      : at::constant_pad_nd(of_heads, {0, padded_size(x.size(2)) - x.size(2)}).contiguous();
}

/// [rows, h, size] -> [tiles * each, h, padded rows, padded size]
at::Tensor TileBatch::packed_keys(const at::Tensor& x, int64_t each) const {
  const at::Tensor of_heads =
      at::constant_pad_nd(pack(x, keys_).transpose(1, 2), {0, padded_size(x.size(2)) - x.size(2)}).contiguous();
  return each == 1 ? of_heads : of_heads.repeat_interleave(each, 0);
}

/// [tiles * each, h, padded rows, *] -> [rows, h * each, *]
at::Tensor TileBatch::unpacked_queries(const at::Tensor& y) const {
  const auto tiles = std::ssize(tiles_);
  const at::Tensor all = y.unflatten(0, {tiles, y.size(0) / tiles}).transpose(1, 3).flatten(2, 3).flatten(0, 1);
  return all.index_select(0, queries_.places);
}

/// [tiles * each, h, padded rows, padded size] -> [rows, h, size], summed over the heads that share one.
at::Tensor TileBatch::unpacked_keys(const at::Tensor& y, int64_t each, int64_t size) const {
  const at::Tensor of_heads = sum_of_shared(y.unflatten(0, {std::ssize(tiles_), each}), 1, /*in_order=*/true);
  return of_heads.narrow(3, 0, size).transpose(1, 2).flatten(0, 1).index_select(0, keys_.places);
}

/// Hides padding among keys; on a diagonal it is later than any query.
std::optional<at::Tensor> TileBatch::mask(const at::Tensor& q) const {
  const auto tiles = std::ssize(tiles_);
  if (first().diagonal || keys_.rows.size(0) == tiles * keys_.padded) return std::nullopt;
  const at::Tensor hidden = at::zeros({tiles, keys_.padded}, q.options());
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t size = tiles_[static_cast<size_t>(i)].keys.size();
    hidden[i].narrow(0, size, keys_.padded - size).fill_(-std::numeric_limits<double>::infinity());
  }
  return hidden.repeat_interleave(q.size(0) / tiles, 0).view({q.size(0), 1, 1, keys_.padded});
}

PartialAttention TileBatch::attend(const TileInputs& x, const AttentionOptions& options) const {
  if (!together_) return nn::attend(x, first(), options);
  const int64_t h = x.k.size(1), each = x.q.size(1) / h;
  const at::Tensor q = packed_queries(x.q, h);
  const auto [out, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
      q, packed_keys(x.k, each), packed_keys(x.v, each), /*dropout_p=*/0.0, first().diagonal, mask(q), options.scale);
  const PartialAttention all{unpacked_queries(out.narrow(3, 0, x.v.size(2))), unpacked_queries(log_sum)};
  if (x.finite) return all;
  int64_t query = 0, key = 0;
  for (const Tile& tile : tiles_) {
    const int64_t queries = tile.queries.size(), keys = tile.keys.size();
    set_unknown({all.out.narrow(0, query, queries), all.log_sum.narrow(0, query, queries)},
                {x.q.narrow(0, query, queries), x.k.narrow(0, key, keys), {}});
    query += queries, key += keys;
  }
  return all;
}

TileInputs TileBatch::attend_backward(const TileInputs& x, const TileResults& y,
                                      const AttentionOptions& options) const {
  if (!together_) return nn::attend_backward(x, y, first(), options);
  const int64_t h = x.k.size(1), each = x.q.size(1) / h;
  const at::Tensor q = packed_queries(x.q, h);
  const auto [of_q, of_k, of_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      packed_queries(y.gradient, h), q, packed_keys(x.k, each), packed_keys(x.v, each), packed_queries(y.out, h),
      packed_queries(y.log_sum, h), /*dropout_p=*/0.0, first().diagonal, mask(q), options.scale);
  return {unpacked_queries(of_q.narrow(3, 0, x.q.size(2))), unpacked_keys(of_k, each, x.k.size(2)),
          unpacked_keys(of_v, each, x.v.size(2))};
}

std::vector<TileBatch> batches_of(const std::vector<Tile>& tiles, const Rows& rows, int64_t blocks, bool together) {
  std::vector<TileBatch> batches;
  if (!together) {
    for (const Tile& tile : tiles) batches.emplace_back(std::vector{tile}, together);
    return batches;
  }
  std::map<std::tuple<std::pair<int64_t, int64_t>, int64_t, int64_t>, std::vector<Tile>> alike;
  for (const Tile& tile : tiles)
    alike[{sizes_of_blocks(rows.lengths()[static_cast<size_t>(tile.sample)], blocks), tile.query_piece, tile.key_piece}]
        .push_back(tile);
  for (auto& [key, of_key] : alike) batches.emplace_back(std::move(of_key), together);
  return batches;
}

}  // namespace adjoin::nn
