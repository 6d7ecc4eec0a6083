#pragma once

#include <string>

#include "adjoin/data/tokenizer/bert_words.hpp"
#include "adjoin/data/tokenizer/longest_pieces.hpp"
#include "adjoin/data/tokenizer/tokenizer_json.hpp"

namespace adjoin::data {

/// The options in which WordPiece tokenizers differ; the defaults are BERT's uncased one.
struct WordPieceOptions {
  BertWordOptions words;
  size_t longest_word = kLongestWord;
  std::string unknown = "[UNK]", first = "[CLS]", last = "[SEP]", padding = "[PAD]";
  std::string mask = "[MASK]";  // a vocabulary may lack it
};

/// The parts of a tokenizer.json without vocabulary and tokens, as transformers' BertTokenizer makes them.
TokenizerJson wordpiece_parts(const WordPieceOptions& options);

}  // namespace adjoin::data
