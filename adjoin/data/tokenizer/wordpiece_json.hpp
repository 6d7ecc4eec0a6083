#pragma once

#include <string>
#include <vector>

#include "adjoin/data/tokenizer/tokenizer_json.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"

namespace adjoin::data {

/// The content of a tokenizer.json for WordPiece.
struct WordPieceJson {
  std::vector<std::string> pieces;       // by id, "" where an id has none
  std::vector<std::string> word_pieces;  // those into which words are cut, without added tokens alone
  WordPieceOptions options;
  std::vector<AddedToken> added;
  bool splits_special_tokens = false;
};

/// Throws: InvalidArgument that begins with `name`
WordPieceJson read_wordpiece_json(const std::string& content, const std::string& name);

/// The parts of a tokenizer.json without vocabulary and tokens, as transformers' BertTokenizer makes them.
TokenizerJson wordpiece_parts(const WordPieceOptions& options);

/// The text of a tokenizer.json with these values, as transformers' BertTokenizer writes it.
std::string wordpiece_json(const std::vector<std::string>& pieces, const WordPieceOptions& options,
                           const std::vector<AddedToken>& added);

}  // namespace adjoin::data
