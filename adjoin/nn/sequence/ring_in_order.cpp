#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/nn/sequence/ring.hpp"
#include "adjoin/nn/sequence/tile_batch.hpp"
#include "adjoin/partition/sum_tree.hpp"

namespace adjoin::nn {
namespace {

/// A sum over the keys that a piece of queries sees, or over the queries that see a piece of keys; and which part a tile is.
struct Place {
  SumTree tree;
  Range part;
};

Place among_keys(const Tile& tile, bool causal) {
  return {{causal ? tile.query_piece + 1 : tile.pieces}, {tile.key_piece, tile.key_piece + 1}};
}
Place among_queries(const Tile& tile, bool causal) {
  const int64_t before = causal ? tile.key_piece : 0, part = tile.query_piece - before;
  return {{tile.pieces - before}, {part, part + 1}};
}

/// What has come so far for each batch of pieces, by its first row.
template <class Value>
class SumsOfPieces {
 public:
  explicit SumsOfPieces(SumArrivals<Value>::Add add) : add_(std::move(add)) {}

  void add(int64_t first_row, const TileBatch& batch, const Place& place, Value value) {
    of_row_.try_emplace(first_row, OfBatch{&batch, SumArrivals<Value>(place.tree, add_)})
        .first->second.sums.add(place.part, std::move(value));
  }
  /// Calls `work(batch, value, place)` for each node, in an order that follows from the places alone.
  template <class Work>
  void for_each(const Work& work) const {
    for (const auto& [row, of_batch] : of_row_)
      for (const auto& [node, value] : of_batch.sums.nodes())
        work(*of_batch.batch, value, Place{of_batch.sums.tree(), node});
  }

 private:
  struct OfBatch {
    const TileBatch* batch;  // one of those with these pieces
    SumArrivals<Value> sums;
  };
  SumArrivals<Value>::Add add_;
  std::map<int64_t, OfBatch> of_row_;
};

using Tensors = std::vector<at::Tensor>;

/// Of gradients: of queries, or of keys and values.
Tensors sum_of_gradients(const Tensors& left, const Tensors& right) {
  Tensors sums;
  for (size_t i = 0; i < left.size(); ++i) sums.push_back(left[i] + right[i]);
  return sums;
}

/// Pieces of some tensors as their batches pack them, each once.
class Packed {
 public:
  const at::Tensor& queries(const TileBatch& batch, const at::Tensor& x, int64_t h) {
    return once(x, batch.first_query(), [&] { return batch.pack_queries(x, h); });
  }
  const at::Tensor& keys(const TileBatch& batch, const at::Tensor& x, int64_t each) {
    return once(x, batch.first_key(), [&] { return batch.pack_keys(x, each); });
  }

 private:
  template <class Pack>
  const at::Tensor& once(const at::Tensor& x, int64_t first_row, const Pack& pack) {
    const auto [found, is_new] = of_.try_emplace({x.unsafeGetTensorImpl(), first_row});
    if (is_new) found->second = pack();
    return found->second;
  }

  std::map<std::pair<const void*, int64_t>, at::Tensor> of_;
};

class RingInOrder final : public Ring {
 public:
  using Ring::Ring;

  PartialAttention forward(const TileInputs& mine) const override {
    const PartialAttention all = uninitialised_partial(mine.q);
    if (mine.q.size(1) == 0) return all;  // no heads
    SumsOfPieces<PartialAttention> sums([&](const PartialAttention& left, const PartialAttention& right) {
      merge(left, right, options_);
      return left;
    });
    Packed packed;
    go_round(mine, [&](int step, const Tensors& visitors) {
      const bool finite = std::isfinite((mine.q.sum() + visitors[0].sum()).item<double>());
      Packed of_visitors;
      for (const TileBatch& batch : batches(group_.rank(), owner_in(step)))
        sums.add(batch.first_query(), batch, among_keys(batch.first(), options_.causal),
                 batch.attend(inputs(batch, mine, packed, visitors, of_visitors, finite), options_));
    });
    sums.for_each([&](const TileBatch& batch, const PartialAttention& x, const Place&) {
      batch.unpack_queries(x.out, all.out);
      batch.unpack_queries(x.log_sum, all.log_sum);
    });
    return all;
  }

  TileInputs backward(const TileInputs& mine, const TileResults& results) const override {
    const auto unset = [&](const at::Tensor& x) { return at::empty(x.sizes(), results.log_sum.options()); };
    const TileInputs all{unset(mine.q), unset(mine.k), unset(mine.v)};
    if (mine.q.size(1) == 0) return all;
    SumsOfPieces<Tensors> of_q(sum_of_gradients), of_keys(sum_of_gradients);  // of the rank whose keys are here
    Packed packed;
    go_round(mine, [&](int step, const Tensors& visitors) {
      Packed of_visitors;
      for (const TileBatch& batch : batches(group_.rank(), owner_in(step))) {
        const auto of_mine = [&](const at::Tensor& x) { return packed.queries(batch, x, mine.k.size(1)); };
        const TileInputs gradient = batch.attend_backward(
            inputs(batch, mine, packed, visitors, of_visitors, /*finite=*/true),
            {of_mine(results.out), of_mine(results.log_sum), of_mine(results.gradient)}, options_);
        of_q.add(batch.first_query(), batch, among_keys(batch.first(), options_.causal), {gradient.q});
        of_keys.add(batch.first_key(), batch, among_queries(batch.first(), options_.causal), {gradient.k, gradient.v});
      }
      if (group_.size() > 1) of_keys = handed_on(of_keys, step, all);
    });
    of_q.for_each([&](const TileBatch& batch, const Tensors& x, const Place&) { batch.unpack_queries(x[0], all.q); });
    of_keys.for_each([&](const TileBatch& batch, const Tensors& x, const Place&) {
      batch.put_keys(batch.unpack_keys(x[0], all.k.size(2)), all.k);
      batch.put_keys(batch.unpack_keys(x[1], all.v.size(2)), all.v);
    });
    return all;
  }

 private:
  static TileInputs inputs(const TileBatch& batch, const TileInputs& mine, Packed& packed, const Tensors& visitors,
                           Packed& of_visitors, bool finite) {
    const int64_t h = mine.k.size(1), each = mine.q.size(1) / h;
    return {packed.queries(batch, mine.q, h), of_visitors.keys(batch, visitors[0], each),
            of_visitors.keys(batch, visitors[1], each), finite};
  }

  /// The same for all layers.
  const std::vector<TileBatch>& batches(int query_rank, int key_rank) const {
    const bool together = !options_.mask && !options_.drops() && *options_.scale > 0;
    const std::string key = "batches of tiles of " + std::to_string(query_rank) + " and " + std::to_string(key_rank) +
                            (options_.causal ? ", causal, " : ", ") + std::to_string(options_.blocks) +
                            (together ? " blocks" : " blocks, one by one");
    return rows_.once(key, [&] {
      return batches_of(tiles_of(rows_, query_rank, key_rank, options_), rows_, options_.blocks, together);
    });
  }

  /// The sums that the previous rank has of the keys that are here next, for those of the keys that are here now.
  SumsOfPieces<Tensors> handed_on(const SumsOfPieces<Tensors>& of_keys, int step, const TileInputs& like) const {
    Tensors ks{like.k.narrow(0, 0, 0)}, vs{like.v.narrow(0, 0, 0)};
    of_keys.for_each([&](const TileBatch& batch, const Tensors& x, const Place&) {
      ks.push_back(batch.unpack_keys(x[0], like.k.size(2)));
      vs.push_back(batch.unpack_keys(x[1], like.v.size(2)));
    });
    Tensors travelling{at::cat(ks), at::cat(vs)};
    const int owner = owner_in(step + 1);
    SumsOfPieces<int64_t> expected([](int64_t rows, int64_t) { return rows; });
    for (int added = 0; added <= step; ++added)
      for (const TileBatch& batch : batches(modulo(owner + added), owner))
        expected.add(batch.first_key(), batch, among_queries(batch.first(), options_.causal), batch.keys());
    int64_t all = 0;
    expected.for_each([&](const TileBatch&, int64_t rows, const Place&) { all += rows; });
    hand_on(travelling, all)(group_);
    SumsOfPieces<Tensors> next(sum_of_gradients);
    int64_t first = 0;
    expected.for_each([&](const TileBatch& batch, int64_t rows, const Place& place) {
      const auto packed = [&](const at::Tensor& x) { return batch.pack_gradients(x.narrow(0, first, rows)); };
      next.add(batch.first_key(), batch, place, {packed(travelling[0]), packed(travelling[1])});
      first += rows;
    });
    return next;
  }
};

}  // namespace

std::shared_ptr<const Ring> ring_in_order(Communicator group, TokenRows rows, AttentionOptions options) {
  return std::make_shared<RingInOrder>(std::move(group), std::move(rows), std::move(options));
}

}  // namespace adjoin::nn
