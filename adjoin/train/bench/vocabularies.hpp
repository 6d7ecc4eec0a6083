#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/texts/language_modelling.hpp"
#include "adjoin/texts/text_classification.hpp"

namespace adjoin::train {

/// A vocabulary with this number of pieces, whose texts are never used.
inline data::WordPiece words_of(int64_t size) {
  std::vector<std::string> pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  for (int64_t id = std::ssize(pieces); id < size; ++id) pieces.push_back(std::to_string(id));
  return data::WordPiece(std::move(pieces));
}

/// A decoder's vocabulary with this number of tokens, whose texts are never used.
class Numbers final : public data::TextVocabulary {
 public:
  explicit Numbers(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  int64_t end_of_document() const override { return size_ - 1; }
  void encode(std::string_view, std::vector<int64_t>&) const override {}
  std::string_view bytes_of(int64_t) const override { return "?"; }
  const std::string& content() const override { return content_; }

 private:
  int64_t size_;
  std::string content_;
};

}  // namespace adjoin::train
