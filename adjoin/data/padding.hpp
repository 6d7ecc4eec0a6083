#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "adjoin/data/wordpiece.hpp"

namespace adjoin::data {

/// [CLS] tokens [SEP], of which tokens at the end are left out where it would be longer than `max_length`.
/// Throws: InvalidArgument where max_length is below 2.
std::vector<int64_t> encode_review(const WordPiece& tokenizer, std::string_view text, int64_t max_length);

/// Samples of one batch filled up to the longest of them.
/// Shape: ids is [rows, longest], row-major; lengths is [rows], without the padding.
struct PaddedBatch {
  int64_t rows = 0, longest = 0;
  std::vector<int64_t> ids, lengths;
};

/// Puts samples into one block; what is missing is `padding_id`. No samples give an empty block.
/// Throws: InvalidArgument where a sample is longer than `max_length`.
PaddedBatch pad(std::span<const std::vector<int64_t>> samples, int64_t max_length, int64_t padding_id);

}  // namespace adjoin::data
