#pragma once

#include <string>
#include <vector>

#include "adjoin/data/wordpiece.hpp"

namespace adjoin::data {

/// The content of a tokenizer.json for WordPiece.
struct WordPieceJson {
  std::vector<std::string> pieces;  // by id, without gaps
  size_t pieces_of_words = 0;       // so many come first; then added tokens, into which no word is cut
  WordPieceOptions options;
  std::vector<AddedToken> added;
};

/// Throws: InvalidArgument that begins with `name`
WordPieceJson read_wordpiece_json(const std::string& content, const std::string& name);

/// The text of a tokenizer.json with these values, as transformers' BertTokenizer writes it.
std::string wordpiece_json(const std::vector<std::string>& pieces, const WordPieceOptions& options,
                           const std::vector<AddedToken>& added);

}  // namespace adjoin::data
