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
  std::vector<std::string> pieces;  // by id, those of added tokens among them; "" where an id has none
  std::vector<std::string>
      bytes;  // by id, of the text that a piece stands for; special tokens and the unknown one have none
};

/// Throws: InvalidArgument that begins with `name` where the model is another one than byte-pair encoding, or one of its kinds
/// that is not known
void require_bpe(const TokenizerJson& tokenizer, const std::string& name);

/// `unit`: what the tokenizer's pieces are of.
/// Throws: InvalidArgument that begins with `name`
BpeTokenizer read_bpe(const TokenizerJson& tokenizer, BpeParts::Unit unit, const std::string& name);

/// The ids of a list of tokens, which may be ids already, each once.
/// Throws: InvalidArgument where one is none
std::vector<int64_t> ids_of_names(const TokenizerJson& names, const std::vector<std::string>& pieces,
                                  const std::string& name);

}  // namespace adjoin::data
