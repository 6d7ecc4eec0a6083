#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace adjoin::data {

struct VocabularyOptions {
  int64_t size = 8000;              // the most pieces, special tokens included
  int64_t min_character_count = 2;  // rarer characters get no piece: their words are [UNK]
  int64_t min_pair_count = 2;       // rarer pairs of pieces are not joined
};

/// Counts each word in the texts of a corpus, which are read one after another and not kept. Words that are too long for
/// WordPiece (is_too_long) are not counted.
class WordCounter {
 public:
  void add(std::string_view text);

  /// Sorted, so that learning from them is reproducible.
  std::map<std::string, int64_t> sorted() const { return {counts_.begin(), counts_.end()}; }

 private:
  std::unordered_map<std::string, int64_t> counts_;
  std::string key_;
};

/// Learns WordPiece pieces from the words of a corpus, for WordPiece's constructor: [PAD], [UNK], [CLS], [SEP], [MASK], the
/// characters, then pieces made by joining the most frequent pair of neighbours again and again. The same texts give the same
/// pieces.
/// Cost: linear in the number of different words
/// Throws: InvalidArgument where the size is too small for the special tokens and some characters.
/// Source: byte-pair encoding, Sennrich et al., ACL 2016, on the words of for_each_bert_word.
std::vector<std::string> learn_vocabulary(const WordCounter& counter, const VocabularyOptions& options = {});

}  // namespace adjoin::data
