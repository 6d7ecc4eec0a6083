#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "adjoin/data/tokenizer/text_vocabulary.hpp"

namespace adjoin::data {

struct SubwordOptions {
  int64_t size = 8000;              // the most pieces, including the 256 bytes and the end of a document
  int64_t text_bytes = 16'000'000;  // the most text to learn from, which is in memory meanwhile
};

/// Learns pieces of words from texts; `next` gives texts until it returns false. The same texts give the same pieces. A space
/// belongs to the word after it. Text without a piece is written in bytes.
/// Cost: one thread; about 20 times the texts in memory
/// Throws: InvalidArgument where the size is too small for the bytes and the texts' characters, or where there is no text
/// Source: byte-pair encoding, Sennrich et al., ACL 2016, by the sentencepiece library, Kudo and Richardson, EMNLP 2018.
std::shared_ptr<const TextVocabulary> learn_subwords(const std::function<bool(std::string&)>& next,
                                                     const SubwordOptions& options = {});

/// The vocabulary with this content, which is a sentencepiece model.
/// Throws: InvalidArgument that begins with `name` where it is not valid, or where it would lose a part of some text
std::shared_ptr<const TextVocabulary> subword_vocabulary(std::string content, const std::string& name);

}  // namespace adjoin::data
