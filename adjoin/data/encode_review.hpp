#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "adjoin/data/wordpiece.hpp"

namespace adjoin::data {

/// [CLS] tokens [SEP], of which tokens at the end are left out where it would be longer than `max_length`.
/// Throws: InvalidArgument where max_length is below 2.
std::vector<int64_t> encode_review(const WordPiece& tokenizer, std::string_view text, int64_t max_length);

}  // namespace adjoin::data
