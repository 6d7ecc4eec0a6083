#include "adjoin/nn/sequence/tile_batch.hpp"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace adjoin::nn {
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

/// [rows, heads, *] -> [tiles, padded rows, heads, *], in the kernel's type, with padded features.
at::Tensor TileBatch::padded(const at::Tensor& x, const Side& side) const {
  const auto tiles = std::ssize(tiles_);
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = tiles * side.padded;
  if (x.dim() == 3) shape[2] = padded_size(shape[2]);
  const at::Tensor of_kernel = x.to(partial_type(x));
  at::Tensor all = of_kernel;
  if (x.sizes() != at::IntArrayRef(shape)) {
    all = at::zeros(shape, of_kernel.options());
    (x.dim() == 3 ? all.narrow(2, 0, x.size(2)) : all).index_copy_(0, side.places, of_kernel);
  }
  return all.unflatten(0, {tiles, side.padded});
}

at::Tensor TileBatch::pack_queries(const at::Tensor& x, int64_t h) const {
  const at::Tensor mine = x.index_select(0, queries_.rows);
  if (!together_) return mine;
  return padded(mine, queries_).unflatten(2, {h, x.size(1) / h}).transpose(1, 3).flatten(0, 1).contiguous();
}

at::Tensor TileBatch::pack_keys(const at::Tensor& x, int64_t each) const {
  const at::Tensor mine = x.index_select(0, keys_.rows);
  if (!together_) return mine;
  return padded(mine, keys_).transpose(1, 2).contiguous().repeat_interleave(each, 0);
}

void TileBatch::unpack_queries(const at::Tensor& packed, const at::Tensor& into) const {
  at::Tensor x = packed;
  if (together_) {
    const auto tiles = std::ssize(tiles_);
    x = packed.unflatten(0, {tiles, packed.size(0) / tiles}).transpose(1, 3).flatten(2, 3).flatten(0, 1);
    if (into.dim() == 3) x = x.narrow(2, 0, into.size(2));
    x = x.index_select(0, queries_.places);
  }
  at::Tensor(into).index_copy_(0, queries_.rows, x);
}

at::Tensor TileBatch::unpack_keys(const at::Tensor& packed, int64_t size) const {
  if (!together_) return packed;
  return packed.narrow(3, 0, size).transpose(1, 2).flatten(0, 1).index_select(0, keys_.places);
}

at::Tensor TileBatch::pack_gradients(const at::Tensor& of_keys) const {
  return together_ ? padded(of_keys, keys_).transpose(1, 2).contiguous() : of_keys;
}

void TileBatch::put_keys(const at::Tensor& of_keys, const at::Tensor& into) const {
  at::Tensor(into).index_copy_(0, keys_.rows, of_keys);
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
  auto [out, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(x.q, x.k, x.v, /*dropout_p=*/0.0,
                                                                        first().diagonal, mask(x.q), options.scale);
  if (!x.finite) {  // for which the kernel gives numbers
    const at::Tensor known = x.q.isfinite().all(-1).logical_and(x.k.isfinite().flatten(1).all(1).view({-1, 1, 1}));
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    log_sum = log_sum.masked_fill(known.logical_not(), kUnknown);
    out = out.masked_fill(known.logical_not().unsqueeze(-1), kUnknown);
  }
  return {out, log_sum};
}

TileInputs TileBatch::attend_backward(const TileInputs& x, const TileResults& y,
                                      const AttentionOptions& options) const {
  if (!together_) return nn::attend_backward(x, y, first(), options);
  const auto [of_q, of_k, of_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      y.gradient, x.q, x.k, x.v, y.out, y.log_sum, /*dropout_p=*/0.0, first().diagonal, mask(x.q), options.scale);
  const auto tiles = std::ssize(tiles_);
  const auto of_shared = [&](const at::Tensor& of_heads) {
    return sum_of_shared(of_heads.unflatten(0, {tiles, of_heads.size(0) / tiles}), 1, /*in_order=*/true);
  };
  return {of_q, of_shared(of_k), of_shared(of_v)};
}

std::vector<TileBatch> batches_of(const std::vector<Tile>& tiles, const TokenRows& rows, int64_t blocks,
                                  bool together) {
  // By the numbers of pieces and the padded sizes of all blocks, or each by itself.
  std::map<std::vector<int64_t>, std::vector<Tile>> alike;
  for (const Tile& tile : tiles) {
    std::vector<int64_t> key{tile.query_piece, tile.key_piece};
    const Split sizes = Split::balanced(rows.lengths()[static_cast<size_t>(tile.sample)], static_cast<int>(blocks), 0);
    for (const int64_t size : sizes.sizes()) key.push_back(padded_size(size));
    if (!together) key = {std::ssize(alike)};
    alike[std::move(key)].push_back(tile);
  }
  std::vector<TileBatch> batches;
  for (auto& [key, of_key] : alike) batches.emplace_back(std::move(of_key), together);
  return batches;
}

}  // namespace adjoin::nn
