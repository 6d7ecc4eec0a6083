#include "adjoin/data/encode_review.hpp"

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

}  // namespace adjoin::data
