#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "adjoin/nn/sequence/ring.hpp"
#include "adjoin/partition/sum_tree.hpp"

namespace adjoin::nn {
namespace {

/// The gradients of a piece's keys and values.
struct KeyGradients {
  at::Tensor k, v;
};

/// What has come so far for each piece, by its first row.
template <class Value>
class SumsOfPieces {
 public:
  template <class Add>
  void add(int64_t row, SumTree tree, Range node, Value value, const Add& add) {
    of_row_.try_emplace(row, tree).first->second.add(node, std::move(value), add);
  }
  /// Calls `work(row, value, node, tree)` for each node of each piece, in order.
  template <class Work>
  void for_each(const Work& work) const {
    for (const auto& [row, sums] : of_row_)
      for (const auto& [node, value] : sums.nodes()) work(row, value, node, sums.tree());
  }

 private:
  std::map<int64_t, SumArrivals<Value>> of_row_;
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

KeyGradients sum_of(const KeyGradients& left, const KeyGradients& right) {
  return {left.k + right.k, left.v + right.v};
}

class RingInOrder final : public Ring {
 public:
  using Ring::Ring;

  PartialAttention forward(const TileInputs& mine) const override {
    SumsOfPieces<PartialAttention> sums;
    const auto merged = [&](PartialAttention left, const PartialAttention& right) {
      merge(left, right, options_);
      return left;
    };
    go_round(mine, [&](int step, const Tensors& visitors) {
      const bool finite = !mine.q.is_cpu() || std::isfinite((mine.q.sum() + visitors[0].sum()).item<double>());
      for (const Tile& tile : tiles(owner_in(step), mine.q)) {
        const auto [tree, part] = among_keys(tile, options_.causal);
        sums.add(tile.query_row, tree, part, attend(inputs(mine.q, visitors, tile, finite), tile, options_), merged);
      }
    });
    const PartialAttention all = uninitialised_partial(mine.q);
    sums.for_each([&](int64_t row, const PartialAttention& of_piece, Range, SumTree) {
      const Range rows{row, row + of_piece.out.size(0)};
      assign({part(all.out, row, rows), part(all.log_sum, row, rows)}, of_piece);
    });
    return all;
  }

  TileInputs backward(const TileInputs& mine, const TileResults& results) const override {
    const auto unset = [&](const at::Tensor& x) { return at::empty(x.sizes(), results.log_sum.options()); };
    const TileInputs all{unset(mine.q), unset(mine.k), unset(mine.v)};
    if (mine.q.size(1) == 0) return all;  // no heads
    SumsOfPieces<at::Tensor> of_q;
    SumsOfPieces<KeyGradients> of_keys;  // of the rank whose keys are here
    go_round(mine, [&](int step, const Tensors& visitors) {
      for (const Tile& tile : tiles(owner_in(step), mine.q)) {
        const TileInputs gradient =
            attend_backward(inputs(mine.q, visitors, tile, /*finite=*/true), results_of(results, tile), tile, options_);
        const auto [tree, part] = among_keys(tile, options_.causal);
        of_q.add(tile.query_row, tree, part, gradient.q,
                 [](const at::Tensor& left, const at::Tensor& right) { return left + right; });
        add(of_keys, tile, {gradient.k, gradient.v}, sum_of);
      }
      if (group_.size() > 1) of_keys = handed_on(of_keys, step, all);
    });
    const auto keep = [](const at::Tensor& of_all, int64_t row, const at::Tensor& x) {
      of_all.narrow(0, row, x.size(0)).copy_(x);
    };
    of_q.for_each([&](int64_t row, const at::Tensor& x, Range, SumTree) { keep(all.q, row, x); });
    of_keys.for_each([&](int64_t row, const KeyGradients& x, Range, SumTree) {
      keep(all.k, row, x.k);
      keep(all.v, row, x.v);
    });
    return all;
  }

 private:
  template <class Value, class Add>
  void add(SumsOfPieces<Value>& sums, const Tile& tile, Value value, const Add& add) const {
    const auto [tree, part] = among_queries(tile, options_.causal);
    sums.add(tile.key_row, tree, part, std::move(value), add);
  }

  /// The sums that the previous rank has of the keys that are here next, for those of the keys that are here now.
  SumsOfPieces<KeyGradients> handed_on(SumsOfPieces<KeyGradients>& of_keys, int step, const TileInputs& like) const {
    Tensors ks{like.k.narrow(0, 0, 0)}, vs{like.v.narrow(0, 0, 0)};
    of_keys.for_each([&](int64_t, const KeyGradients& x, Range, SumTree) {
      ks.push_back(x.k);
      vs.push_back(x.v);
    });
    Tensors travelling{at::cat(ks), at::cat(vs)};
    const int owner = owner_in(step + 1);
    SumsOfPieces<int64_t> expected;  // the keys of each piece
    for (int added = 0; added <= step; ++added)
      for (const Tile& tile : tiles_of(rows_, modulo(owner + added), owner, options_))
        add(expected, tile, tile.keys.size(), [](int64_t keys, int64_t) { return keys; });
    int64_t rows = 0;
    expected.for_each([&](int64_t, int64_t keys, Range, SumTree) { rows += keys; });
    hand_on(travelling, rows)(group_);
    SumsOfPieces<KeyGradients> next;
    int64_t first = 0;
    expected.for_each([&](int64_t row, int64_t keys, Range node, SumTree tree) {
      next.add(row, tree, node, {travelling[0].narrow(0, first, keys), travelling[1].narrow(0, first, keys)}, sum_of);
      first += keys;
    });
    return next;
  }
};

}  // namespace

std::shared_ptr<const Ring> ring_in_order(Communicator group, Rows rows, AttentionOptions options) {
  return std::make_shared<RingInOrder>(std::move(group), std::move(rows), std::move(options));
}

}  // namespace adjoin::nn
