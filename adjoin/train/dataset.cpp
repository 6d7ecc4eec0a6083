#include "adjoin/train/dataset.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "adjoin/base/philox.hpp"
#include "adjoin/data/encode_review.hpp"

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

Batch make_batch(const data::TokenStore& dataset, std::span<const int64_t> samples, const data::BatchPart& part,
                 const TokenDropout& dropout) {
  std::vector<int64_t> ids, lengths, labels;
  for (int64_t place = part.begin; place < part.begin + part.count; ++place) {
    const int64_t sample = samples[static_cast<size_t>(place)];
    const std::vector<int64_t> kept = without_dropped(dataset.ids(sample), dropout, place);
    ids.insert(ids.end(), kept.begin(), kept.end());
    lengths.push_back(std::ssize(kept));
    labels.push_back(dataset.label(sample));
  }
  return {.ids = at::tensor(ids, at::kLong),
          .rows = std::make_shared<const Rows>(Rows::balanced(lengths, 1)),
          .labels = at::tensor(labels, at::kLong),
          .first_sample = part.begin};
}

}  // namespace adjoin::train
