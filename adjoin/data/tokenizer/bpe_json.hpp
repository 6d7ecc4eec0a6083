#pragma once

#include <string>
#include <vector>

#include "adjoin/data/tokenizer/added_tokens.hpp"
#include "adjoin/data/tokenizer/bpe.hpp"
#include "adjoin/data/tokenizer/tokenizer_json.hpp"

namespace adjoin::data {

/// What a tokenizer.json says of byte-pair encoding.
struct BpeTokenizer {
  BpeParts parts;
  std::vector<AddedToken> added;
  std::vector<std::string> pieces;  // by id, including those of added tokens; "" where an id has none
  std::vector<std::string> bytes;  // by id, the text that a piece stands for; "" for special tokens and the unknown one
};

/// Throws: InvalidArgument that begins with `name` where the model is not byte-pair encoding, or is an unknown variant of it
void require_bpe(const TokenizerJson& tokenizer, const std::string& name);

/// `unit`: the units of the tokenizer's pieces.
/// Throws: InvalidArgument that begins with `name`
BpeTokenizer read_bpe(const TokenizerJson& tokenizer, BpeParts::Unit unit, const std::string& name);

/// The ids of a list of tokens, which may also be ids; each id once. Ids beyond the vocabulary are left out, as no text has them.
/// Throws: InvalidArgument for a token that is not in the vocabulary
std::vector<int64_t> ids_of_names(const TokenizerJson& names, const std::vector<std::string>& pieces,
                                  const std::string& name);

}  // namespace adjoin::data
