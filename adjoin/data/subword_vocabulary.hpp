#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "adjoin/data/text_vocabulary.hpp"

namespace adjoin::data {

struct SubwordOptions {
  int64_t size = 8000;              // pieces at most, the 256 bytes and the end of a document among them
  int64_t text_bytes = 16'000'000;  // of text at most to learn from, which is kept meanwhile
};

/// Learns pieces of words from texts, which `next` gives until it gives none; the same texts give the same pieces. A space
/// belongs to the word that follows. What has no piece is written in bytes.
/// Cost: one thread; about 20 times the texts in memory
/// Throws: InvalidArgument where the size does not hold the bytes and the texts' characters, or there is no text
/// Source: byte-pair encoding, Sennrich et al., ACL 2016, by the sentencepiece library, Kudo and Richardson, EMNLP 2018.
std::shared_ptr<const TextVocabulary> learn_subwords(const std::function<bool(std::string&)>& next,
                                                     const SubwordOptions& options = {});

/// A vocabulary of such a content, which is a model of sentencepiece.
/// Throws: InvalidArgument that begins with `name` where it is none, or one that would lose something of a text
std::shared_ptr<const TextVocabulary> subword_vocabulary(std::string content, const std::string& name);

}  // namespace adjoin::data
