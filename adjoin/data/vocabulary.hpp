#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "adjoin/data/reviews.hpp"

namespace adjoin::data {

struct VocabularyOptions {
  int64_t size = 8000;              // pieces at most, the special tokens included
  int64_t min_character_count = 2;  // rarer characters have no piece: their words are [UNK]
  int64_t min_pair_count = 2;       // rarer pairs of pieces are not joined
};

/// Learns WordPiece pieces from texts, for WordPiece's constructor: [PAD], [UNK], [CLS], [SEP], [MASK], the characters,
/// then pieces made by joining the most frequent pair of neighbours over and over. Words that are too long to be known
/// (is_too_long) teach nothing. The same texts give the same pieces.
/// Cost: linear in the texts
/// Throws: InvalidArgument where the size does not hold the special tokens and some characters.
/// Source: byte-pair encoding, Sennrich et al., ACL 2016, on the words of for_each_bert_word.
std::vector<std::string> learn_vocabulary(std::span<const Review> reviews, const VocabularyOptions& options = {});

}  // namespace adjoin::data
