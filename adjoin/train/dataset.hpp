#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/data/token_store.hpp"

namespace adjoin::train {

/// One worker's part of a global batch, padded to its own longest sample.
struct Batch {
  at::Tensor ids;            ///< [samples, tokens] int64
  at::Tensor keep;           ///< [samples, tokens] bool, false where padded; undefined where nothing is padded
  at::Tensor labels;         ///< [samples] int64
  int64_t first_sample = 0;  ///< place of the first sample in the global batch
  int64_t tokens = 0;        ///< that are not padding
};

/// Leaves out each token with probability `p`, but for the first and the last ([CLS] and [SEP]). What is left out
/// follows from seed, step, the sample's place in the global batch and the token's in the text: the same in every
/// layout.
struct TokenDropout {
  double p = 0;
  uint64_t seed = 0;
  int64_t step = 0;
};

/// The part of rank `rank` of `size` of a global batch of samples of `dataset`.
Batch make_batch(const data::TokenStore& dataset, std::span<const int64_t> samples, int rank, int size,
                 int64_t padding_id, const TokenDropout& dropout = {});

}  // namespace adjoin::train
