#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adjoin/data/sampler.hpp"
#include "adjoin/data/token_store.hpp"
#include "adjoin/partition/rows.hpp"

namespace adjoin::train {

/// A part of a global batch, its samples one behind another, without padding.
struct Batch {
  at::Tensor ids;                    ///< [rows] int64
  std::shared_ptr<const Rows> rows;  ///< which sample and token each row is
  at::Tensor labels;                 ///< [samples] int64
  int64_t first_sample = 0;          ///< place of the first sample in the global batch
};

/// Leaves out each token with probability `p`, but for the first and the last ([CLS] and [SEP]). What is left out
/// follows from seed, step, the sample's place in the global batch and the token's in the text: the same in every
/// layout.
struct TokenDropout {
  double p = 0;
  uint64_t seed = 0;
  int64_t step = 0;
};

/// A part of a global batch of samples of `dataset`.
Batch make_batch(const data::TokenStore& dataset, std::span<const int64_t> samples, const data::BatchPart& part,
                 const TokenDropout& dropout = {});

}  // namespace adjoin::train
