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

/// The gradients of some keys and values.
struct KeyGradients {
  at::Tensor k, v;
};

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

/// What has come so far for the rows of each batch of pieces.
template <class Value>
class SumsOfPieces {
 public:
  template <class Add>
  void add(const at::Tensor& rows, const Place& place, Value value, const Add& add) {
    const int64_t first = rows.const_data_ptr<int64_t>()[0];
    of_rows_.try_emplace(first, rows, place.tree).first->second.sums.add(place.part, std::move(value), add);
  }
  /// Calls `work(rows, value, place)` for each node, in an order that follows from the places alone.
  template <class Work>
  void for_each(const Work& work) const {
    for (const auto& [first, of_rows] : of_rows_)
      for (const auto& [node, value] : of_rows.sums.nodes())
        work(of_rows.rows, value, Place{of_rows.sums.tree(), node});
  }

 private:
  struct OfRows {
    OfRows(at::Tensor of, SumTree tree) : rows(std::move(of)), sums(tree) {}
    at::Tensor rows;
    SumArrivals<Value> sums;
  };
  std::map<int64_t, OfRows> of_rows_;
};

KeyGradients sum_of(const KeyGradients& left, const KeyGradients& right) {
  return {left.k + right.k, left.v + right.v};
}

class RingInOrder final : public Ring {
 public:
  using Ring::Ring;

  PartialAttention forward(const TileInputs& mine) const override {
    if (mine.q.size(1) == 0) return uninitialised_partial(mine.q);  // no heads
    SumsOfPieces<PartialAttention> sums;
    const auto merged = [&](const PartialAttention& left, const PartialAttention& right) {
      merge(left, right, options_);
      return left;
    };
    go_round(mine, [&](int step, const Tensors& visitors) {
      const bool finite = std::isfinite((mine.q.sum() + visitors[0].sum()).item<double>());
      for (const TileBatch& batch : batches(group_.rank(), owner_in(step)))
        sums.add(batch.query_rows(), among_keys(batch.first(), options_.causal),
                 batch.attend(rows_in(batch, mine, visitors, finite), options_), merged);
    });
    const PartialAttention all = uninitialised_partial(mine.q);
    sums.for_each([&](const at::Tensor& rows, const PartialAttention& of_rows, const Place&) {
      at::Tensor(all.out).index_copy_(0, rows, of_rows.out);
      at::Tensor(all.log_sum).index_copy_(0, rows, of_rows.log_sum);
    });
    return all;
  }

  TileInputs backward(const TileInputs& mine, const TileResults& results) const override {
    const auto unset = [&](const at::Tensor& x) { return at::empty(x.sizes(), results.log_sum.options()); };
    const TileInputs all{unset(mine.q), unset(mine.k), unset(mine.v)};
    if (mine.q.size(1) == 0) return all;
    SumsOfPieces<at::Tensor> of_q;
    SumsOfPieces<KeyGradients> of_keys;  // of the rank whose keys are here
    go_round(mine, [&](int step, const Tensors& visitors) {
      for (const TileBatch& batch : batches(group_.rank(), owner_in(step))) {
        const auto of_batch = [&](const at::Tensor& x) { return x.index_select(0, batch.query_rows()); };
        const TileInputs gradient = batch.attend_backward(
            rows_in(batch, mine, visitors, /*finite=*/true),
            {of_batch(results.out), of_batch(results.log_sum), of_batch(results.gradient)}, options_);
        of_q.add(batch.query_rows(), among_keys(batch.first(), options_.causal), gradient.q,
                 [](const at::Tensor& left, const at::Tensor& right) { return left + right; });
        of_keys.add(batch.key_rows(), among_queries(batch.first(), options_.causal), {gradient.k, gradient.v}, sum_of);
      }
      if (group_.size() > 1) of_keys = handed_on(of_keys, step, all);
    });
    of_q.for_each(
        [&](const at::Tensor& rows, const at::Tensor& x, const Place&) { at::Tensor(all.q).index_copy_(0, rows, x); });
    of_keys.for_each([&](const at::Tensor& rows, const KeyGradients& x, const Place&) {
      at::Tensor(all.k).index_copy_(0, rows, x.k);
      at::Tensor(all.v).index_copy_(0, rows, x.v);
    });
    return all;
  }

 private:
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

  static TileInputs rows_in(const TileBatch& batch, const TileInputs& mine, const Tensors& visitors, bool finite) {
    return {mine.q.index_select(0, batch.query_rows()), visitors[0].index_select(0, batch.key_rows()),
            visitors[1].index_select(0, batch.key_rows()), finite};
  }

  /// The sums that the previous rank has of the keys that are here next, for those of the keys that are here now.
  SumsOfPieces<KeyGradients> handed_on(const SumsOfPieces<KeyGradients>& of_keys, int step,
                                       const TileInputs& like) const {
    Tensors ks{like.k.narrow(0, 0, 0)}, vs{like.v.narrow(0, 0, 0)};
    of_keys.for_each([&](const at::Tensor&, const KeyGradients& x, const Place&) {
      ks.push_back(x.k);
      vs.push_back(x.v);
    });
    Tensors travelling{at::cat(ks), at::cat(vs)};
    const int owner = owner_in(step + 1);
    SumsOfPieces<int64_t> expected;  // rows
    for (int added = 0; added <= step; ++added)
      for (const TileBatch& batch : batches(modulo(owner + added), owner))
        expected.add(batch.key_rows(), among_queries(batch.first(), options_.causal), batch.key_rows().size(0),
                     [](int64_t rows, int64_t) { return rows; });
    int64_t all = 0;
    expected.for_each([&](const at::Tensor&, int64_t rows, const Place&) { all += rows; });
    hand_on(travelling, all)(group_);
    SumsOfPieces<KeyGradients> next;
    int64_t first = 0;
    expected.for_each([&](const at::Tensor& rows, int64_t count, const Place& place) {
      next.add(rows, place, {travelling[0].narrow(0, first, count), travelling[1].narrow(0, first, count)}, sum_of);
      first += count;
    });
    return next;
  }
};

}  // namespace

std::shared_ptr<const Ring> ring_in_order(Communicator group, Rows rows, AttentionOptions options) {
  return std::make_shared<RingInOrder>(std::move(group), std::move(rows), std::move(options));
}

}  // namespace adjoin::nn
