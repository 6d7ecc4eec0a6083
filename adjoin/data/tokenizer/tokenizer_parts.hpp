#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "adjoin/data/tokenizer/added_tokens.hpp"
#include "adjoin/data/tokenizer/bpe.hpp"
#include "adjoin/data/tokenizer/longest_pieces.hpp"
#include "adjoin/data/tokenizer/text_steps.hpp"

namespace adjoin::data {

/// What a tokenizer.json says.
struct TokenizerParts {
  std::string content;  // the file itself
  Normalizer normalizer;
  WordCutting words;
  std::variant<Bpe, LongestPieces> model;
  std::vector<AddedToken> added;
  std::vector<std::string> bytes;  // by id, the text that a token stands for
  std::vector<int64_t> ends;
  Surroundings around;
  Specials in_documents = Specials::are_text, in_prompts = Specials::count;
  int64_t unknown = -1, padding = -1;  // of a classifier

  /// Made of `added`.
  AddedTokens in_text{}, in_normalized_text{};
};

}  // namespace adjoin::data
