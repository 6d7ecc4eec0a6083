#include "adjoin/data/padding.hpp"

#include <algorithm>
#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin::data {

std::vector<int64_t> encode_review(const WordPiece& tokenizer, std::string_view text, int64_t max_length) {
  require(max_length >= 2, [&] {
    return "encode_review: a review takes at least 2 tokens, [CLS] and [SEP]; got a maximum of " +
           std::to_string(max_length);
  });
  std::vector<int64_t> ids = tokenizer.encode(text, static_cast<size_t>(max_length - 2));
  ids.insert(ids.begin(), tokenizer.class_id());
  ids.push_back(tokenizer.separator_id());
  return ids;
}

PaddedBatch pad(std::span<const std::vector<int64_t>> samples, int64_t max_length, int64_t padding_id) {
  PaddedBatch batch;
  batch.rows = std::ssize(samples);
  for (const auto& sample : samples) {
    batch.lengths.push_back(std::ssize(sample));
    batch.longest = std::max(batch.longest, batch.lengths.back());
  }
  require(batch.longest <= max_length, [&] {
    return "pad: a sample has " + std::to_string(batch.longest) + " tokens, more than the maximum of " +
           std::to_string(max_length);
  });
  batch.ids.assign(static_cast<size_t>(batch.rows * batch.longest), padding_id);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto& sample = samples[static_cast<size_t>(row)];
    std::copy(sample.begin(), sample.end(), batch.ids.begin() + row * batch.longest);
  }
  return batch;
}

}  // namespace adjoin::data
