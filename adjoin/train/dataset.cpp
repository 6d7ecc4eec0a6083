#include "adjoin/train/dataset.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "adjoin/base/philox.hpp"
#include "adjoin/data/padding.hpp"
#include "adjoin/data/sampler.hpp"

namespace adjoin::train {
namespace {

std::vector<int64_t> without_dropped(const std::vector<int64_t>& ids, const TokenDropout& dropout, int64_t place) {
  if (dropout.p == 0 || ids.size() <= 2) return ids;
  const auto threshold = static_cast<uint32_t>(std::round(dropout.p * 65536));
  std::vector<uint16_t> random(ids.size());
  philox_row(random, philox_key(dropout.seed, "token_dropout"), 0, static_cast<uint32_t>(place), 0,
             static_cast<uint32_t>(dropout.step));
  std::vector<int64_t> kept{ids.front()};
  for (size_t i = 1; i + 1 < ids.size(); ++i)
    if (random[i] >= threshold) kept.push_back(ids[i]);
  kept.push_back(ids.back());
  return kept;
}

}  // namespace

Batch make_batch(const data::TokenStore& dataset, std::span<const int64_t> samples, int rank, int size,
                 int64_t padding_id, const TokenDropout& dropout) {
  const data::BatchPart part = data::part_of(static_cast<int64_t>(samples.size()), rank, size);
  Batch batch;
  batch.first_sample = part.begin;
  std::vector<std::vector<int64_t>> ids;
  std::vector<int64_t> labels;
  size_t longest = 0;
  for (int64_t place = part.begin; place < part.begin + part.count; ++place) {
    const int64_t sample = samples[static_cast<size_t>(place)];
    ids.push_back(without_dropped(dataset.ids(sample), dropout, place));
    labels.push_back(dataset.label(sample));
    longest = std::max(longest, ids.back().size());
  }
  const data::PaddedBatch padded = data::pad(ids, static_cast<int64_t>(longest), padding_id);
  batch.ids = at::tensor(padded.ids, at::kLong).view({padded.rows, padded.longest});
  batch.labels = at::tensor(labels, at::kLong);
  for (const int64_t length : padded.lengths) batch.tokens += length;
  if (batch.tokens != batch.ids.numel())
    batch.keep = at::arange(padded.longest).unsqueeze(0) < at::tensor(padded.lengths, at::kLong).unsqueeze(1);
  return batch;
}

}  // namespace adjoin::train
