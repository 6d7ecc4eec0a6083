#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adjoin/data/reviews.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/data/wordpiece.hpp"
#include "adjoin/partition/rows.hpp"

namespace adjoin::train {

/// Reviews as the model sees them: token ids with [CLS] and [SEP], at most `sequence` of them, and labels.
struct Dataset {
  std::vector<std::vector<int64_t>> ids;
  std::vector<int64_t> labels;

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
  std::vector<int64_t> lengths() const;
};

Dataset tokenize(std::span<const data::Review> reviews, const data::WordPiece& tokenizer, int64_t sequence);

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
Batch make_batch(const Dataset& dataset, std::span<const int64_t> samples, const data::BatchPart& part,
                 const TokenDropout& dropout = {});

}  // namespace adjoin::train
