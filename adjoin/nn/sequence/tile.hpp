#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "adjoin/nn/dropout.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "adjoin/partition/rows.hpp"

namespace adjoin::nn {

/// A block of the scores of one sample: queries of one worker against keys of another.
struct Tile {
  int64_t sample = 0;
  Range queries, keys;                 ///< tokens
  int64_t query_row = 0, key_row = 0;  ///< of the first of them, among the rows of their workers
  bool diagonal = false;               ///< causal, and the queries are the keys: later keys are hidden
};

/// The tiles of a worker's queries against a worker's keys, but for those that a causal mask hides whole. Runs are cut
/// where a mask is asked for or dropout is drawn, so that no tile of scores is large.
std::vector<Tile> tiles_of(const Rows& rows, int query_worker, int key_worker, const AttentionOptions& options);

/// What a tile hides: bool [queries, keys], the mask's answer and the later keys; undefined where it hides nothing.
/// Throws: InvalidArgument where the mask answers with another shape or type
at::Tensor hidden_in(const Tile& tile, const AttentionOptions& options);

/// The words of the rows of the probabilities of a tile, [heads, queries, keys], of heads from `head` of the queries' on.
std::function<RowOfWords(int64_t r)> words_of(const Tile& tile, int64_t head, int64_t heads,
                                              const AttentionOptions& options);

/// The probabilities of a tile, or their gradients, [heads, queries, keys], after dropout; its own adjoint.
at::Tensor drop_in(const Tile& tile, const at::Tensor& probabilities, const AttentionOptions& options);

/// Attention to some of the keys alone, and the logarithm of the sum of the exponentials of their scores.
///
/// Shape: out [rows, heads, size], log_sum [rows, heads], which is -infinity where all keys are hidden; float32 for 16-bit
///        types
struct Share {
  at::Tensor out, log_sum;
};

/// The type of the shares of x's rows.
at::ScalarType share_type(const at::Tensor& x);

/// Adds a share of some keys to that of others, in place: attention to both.
void merge(const Share& sum, const Share& more);

/// `sum` becomes another share, in place.
void assign(const Share& sum, const Share& other);

/// The share of these queries whose numbers are not set.
Share unset_share(const at::Tensor& q);

/// The rows of a tile.
struct TileInputs {
  at::Tensor q, k, v;  ///< [queries, heads, size], [keys, h, size] twice
  bool finite = true;  ///< whether q and k are known to be finite numbers, which spares looking, for `attend` alone
};

/// The share of a tile's keys. `options.scale` is given.
Share attend(const TileInputs& x, const Tile& tile, const AttentionOptions& options);

/// The result of all tiles of these queries, and its gradient.
struct TileResults {
  at::Tensor out, log_sum;  ///< as of a share, out of q's type; log_sum is 0, not -infinity, where all is hidden
  at::Tensor gradient;      ///< of out
};

/// The tile's summands of the gradients of q, k and v.
TileInputs attend_backward(const TileInputs& x, const TileResults& y, const Tile& tile,
                           const AttentionOptions& options);

}  // namespace adjoin::nn
