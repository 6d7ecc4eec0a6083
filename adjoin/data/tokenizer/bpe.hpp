#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "adjoin/data/tokenizer/pair_table.hpp"
#include "adjoin/data/tokenizer/text_map.hpp"
#include "adjoin/data/tokenizer/word_cache.hpp"

namespace adjoin::data {

/// What byte-pair encoding needs: the ids of pieces, and which pairs of pieces are joined; earlier merges come first.
struct BpeParts {
  /// The units that a word begins with: bytes of the text, or UTF-8 characters.
  enum class Unit { byte, character };
  struct Merge {
    int32_t left, right, joined;
  };

  Unit unit = Unit::byte;
  std::unordered_map<std::string, int32_t> pieces;  // keys are the bytes of the text that a piece stands for
  std::vector<Merge> merges;
  std::array<int32_t, 256> fallback;  // pieces for the bytes of a character that is not a piece; kNone: there is none
  int32_t unknown = kNone;            // for a character that has neither; if kNone, it is dropped
  bool fuse_unknown = false;          // consecutive unknown characters become one id
  bool whole_words = false;           // a word that is a piece becomes that piece, whatever the merges give

  static constexpr int32_t kNone = -1;
};

/// Byte-pair encoding of words. Values do not change after construction, so threads may share one; each thread caches the words
/// that it met last.
/// Source: Sennrich, Haddow and Birch, ACL 2016; as the tokenizers package implements it.
class Bpe {
 public:
  explicit Bpe(BpeParts parts);

  /// Appends the ids of a word.
  /// Cost: n log n, and for short words at most n steps in a row for each merge
  void encode(std::string_view word, std::vector<int64_t>& ids) const;

 private:
  using Symbols = std::vector<int32_t>;

  const Symbols& merged(std::string_view word) const;
  void begin(std::string_view word, Symbols& symbols) const;
  void begin_character(std::string_view character, Symbols& symbols, bool& unknown_waits) const;
  int32_t piece(std::string_view text) const;
  void merge_few(Symbols& symbols) const;
  void merge_many(Symbols& symbols) const;

  BpeParts::Unit unit_;
  TextMap<int32_t> pieces_;  // all if whole_words, else one unit each
  std::array<int32_t, 256> bytes_, fallback_;
  PairTable pairs_;
  int32_t unknown_;
  bool fuse_unknown_, whole_words_;
  WordCache cache_;
};

}  // namespace adjoin::data
