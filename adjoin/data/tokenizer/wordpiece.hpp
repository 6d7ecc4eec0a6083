#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/data/tokenizer/tokenizer.hpp"

namespace adjoin::data {

/// BERT's WordPiece tokenizer, uncased unless its options say otherwise: the same ids as transformers' BertTokenizer. The tokens
/// around a text are [CLS] and [SEP]. A special token in a text has its meaning. It keeps neither case nor spaces, so that the
/// bytes of a text's ids are its pieces.
class WordPiece final : public Tokenizer {
 public:
  /// The file for it in a model's folder: for BERT's uncased tokenizer the plain one, as in the first versions.
  static constexpr const char* kPlainFile = "vocab.txt";
  static constexpr const char* kFile = "tokenizer.json";

  /// A tokenizer of these pieces; a piece's id is its place. Pieces inside a word begin with "##".
  /// Throws: InvalidArgument that begins with `name` where a special token is missing or a piece occurs twice.
  explicit WordPiece(std::vector<std::string> pieces, const std::string& name = "vocabulary");

  /// A tokenizer from the content of a tokenizer.json; errors begin with `name`.
  /// Throws: InvalidArgument
  static WordPiece from_json(std::string content, const std::string& name);

  /// Reads a vocab.txt of BERT's uncased tokenizer, with one piece a line; a tokenizer.json; or a folder as transformers writes
  /// it.
  /// Throws: InvalidArgument where the file is missing or is not a vocabulary.
  static WordPiece load(const std::string& path);

  /// The file that load() can read again: its name, kPlainFile or kFile; its text is content().
  const char* file() const { return is_plain_ ? kPlainFile : kFile; }

  /// The text of a tokenizer.json, which transformers can read.
  std::string json() const;

  /// [CLS] tokens [SEP]; tokens at the end are dropped where it would be longer than `max_length`.
  /// Throws: InvalidArgument where max_length is below 2.
  std::vector<int64_t> encode_review(std::string_view text, int64_t max_length) const;

  /// The text of a piece. Throws: InvalidArgument for a number that is not an id
  std::string piece(int64_t id) const { return std::string(bytes_of(id)); }

  int64_t unknown_id() const;
  int64_t class_id() const { return beginning().front(); }
  int64_t separator_id() const { return end_of_document(); }
  int64_t padding_id() const;

 private:
  WordPiece(TokenizerParts parts, bool is_plain);

  bool is_plain_;
};

}  // namespace adjoin::data
