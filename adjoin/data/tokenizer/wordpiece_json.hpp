#pragma once

#include <string>
#include <vector>

#include "adjoin/data/wordpiece.hpp"

namespace adjoin::data {

/// What a tokenizer.json says of WordPiece.
struct WordPieceJson {
  std::vector<std::string> pieces;  // by id, without gaps
  size_t pieces_of_words = 0;       // the first so many; behind them come added tokens that no word is cut into
  WordPieceOptions options;
  std::vector<AddedToken> added;
};

/// Throws: InvalidArgument that begins with `name`
WordPieceJson read_wordpiece_json(const std::string& content, const std::string& name);

/// The text of a tokenizer.json of these, as transformers' BertTokenizer writes it.
std::string wordpiece_json(const std::vector<std::string>& pieces, const WordPieceOptions& options,
                           const std::vector<AddedToken>& added);

}  // namespace adjoin::data
