#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/data/tokenizer/text_map.hpp"
#include "adjoin/data/tokenizer/word_cache.hpp"

namespace adjoin::data {

/// BERT's max_input_chars_per_word: a longer word is always [UNK].
inline constexpr size_t kLongestWord = 100;

/// Whether a word has more characters than the longest that is cut into pieces.
bool is_too_long(std::string_view word, size_t longest = kLongestWord);

/// WordPiece: cuts a word, from its beginning, into the longest pieces that there are. Values do not change after construction,
/// so threads may share one; each
/// thread caches the words that it met last.
/// Source: Schuster and Nakajima, ICASSP 2012; as the tokenizers package implements it.
class LongestPieces {
 public:
  /// Pieces by id, "" where there is none; those inside a word begin with "##". `unknown`: the id of a word that cannot be cut
  /// into pieces.
  LongestPieces(const std::vector<std::string>& pieces, int64_t unknown, size_t longest_word);

  /// Appends the ids of a word.
  void encode(std::string_view word, std::vector<int64_t>& ids) const {
    cache_.append(word, ids, [&] { cut(word, ids); });
  }

 private:
  void cut(std::string_view word, std::vector<int64_t>& ids) const;

  TextMap<int64_t> beginnings_;     // pieces that begin a word
  TextMap<int64_t> continuations_;  // pieces that continue a word, without their "##"
  size_t longest_piece_ = 0;
  int64_t unknown_;
  size_t longest_word_;
  WordCache cache_;
};

}  // namespace adjoin::data
