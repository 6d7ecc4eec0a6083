#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "adjoin/nn/dropout.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "adjoin/partition/token_rows.hpp"

namespace adjoin::nn {

/// In a fixed order rows and features are padded to a multiple of this, whole vector registers: the kernel's bits depend on it.
constexpr int64_t kPaddedTo = 16;

/// The least multiple of `unit` that is not below a size.
inline int64_t padded_size(int64_t size, int64_t unit = kPaddedTo) {
  return (size + unit - 1) / unit * unit;
}

/// A block of the scores of one sample: queries of one worker against keys of another.
struct Tile {
  int64_t sample = 0;
  Range queries, keys;                                 ///< tokens
  int64_t query_row = 0, key_row = 0;                  ///< the first one's place among its worker's rows
  int64_t query_piece = 0, key_piece = 0, pieces = 1;  ///< in a fixed order: their numbers among all of the sample
  bool diagonal = false;  ///< causal, with equal ranges of queries and keys: later keys are hidden
};

/// The tiles of one worker's queries against one worker's keys, except those that a causal mask hides completely. With a mask
/// or dropout, runs are cut so that no tile of scores is large; in a fixed order also between blocks.
/// Throws: InvalidArgument in a fixed order for workers that do not hold whole blocks
std::vector<Tile> tiles_of(const TokenRows& rows, int query_worker, int key_worker, const AttentionOptions& options);

/// What is hidden in a tile, by the mask or as later keys: bool [queries, keys]; undefined where nothing is hidden.
/// Throws: InvalidArgument where the mask's answer has another shape or type
at::Tensor hidden_in(const Tile& tile, const AttentionOptions& options);

/// The random words for the rows of a tile's probabilities, [heads, queries, keys], for `heads` query heads from `head` on.
std::function<MaskRow(int64_t r)> words_of(const Tile& tile, int64_t head, int64_t heads,
                                           const AttentionOptions& options);

/// A tile's probabilities, or their gradients, [heads, queries, keys], after dropout; it is its own adjoint.
at::Tensor drop_in(const Tile& tile, const at::Tensor& probabilities, const AttentionOptions& options);

/// Attention to some of the keys only, and the logarithm of the sum of the exponentials of their scores.
///
/// Shape: out [rows, heads, size], log_sum [rows, heads], -infinity where all keys are hidden; float32 for 16-bit types
struct PartialAttention {
  at::Tensor out, log_sum;
};

/// The type of a PartialAttention for inputs x.
at::ScalarType partial_type(const at::Tensor& x);

/// Adds, in place, attention to some more keys: the result is attention to the keys of both.
void merge(const PartialAttention& sum, const PartialAttention& more, const AttentionOptions& options);

/// The sum along a dim, of heads that share a key head; in a fixed order one after another.
at::Tensor sum_of_shared(const at::Tensor& x, int64_t dim, bool in_order);

/// Copies `other` into `sum`, in place.
void assign(const PartialAttention& sum, const PartialAttention& other);

/// For these queries, with memory that is not initialised.
PartialAttention uninitialised_partial(const at::Tensor& q);

/// The rows of a tile.
struct TileInputs {
  at::Tensor q, k, v;  ///< [queries, heads, size], [keys, h, size], [keys, h, size]
  bool finite = true;  ///< q and k are known to be finite, so `attend` need not look; only `attend` uses it
};

/// Attention to a tile's keys. `options.scale` must have a value.
PartialAttention attend(const TileInputs& x, const Tile& tile, const AttentionOptions& options);

/// The result of all tiles of these queries, and the result's gradient.
struct TileResults {
  at::Tensor out, log_sum;  ///< as in a PartialAttention, but out has q's type, and log_sum is 0 where all is hidden
  at::Tensor gradient;      ///< the gradient of out
};

/// The tile's contributions to the gradients of q, k and v.
TileInputs attend_backward(const TileInputs& x, const TileResults& y, const Tile& tile,
                           const AttentionOptions& options);

}  // namespace adjoin::nn
