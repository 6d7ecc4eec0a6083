#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "adjoin/data/tokenizer/added_tokens.hpp"
#include "adjoin/data/tokenizer/bert_words.hpp"

namespace adjoin::data {

/// BERT's max_input_chars_per_word: a longer word is always [UNK].
inline constexpr size_t kLongestWord = 100;

/// Whether a word has more characters than the longest that is cut into pieces.
bool is_too_long(std::string_view word, size_t longest = kLongestWord);

/// The options in which WordPiece tokenizers differ; the defaults are BERT's uncased one.
struct WordPieceOptions {
  BertWordOptions words;
  size_t longest_word = kLongestWord;
  std::string unknown = "[UNK]", first = "[CLS]", last = "[SEP]", padding = "[PAD]";
  std::string mask = "[MASK]";  // a vocabulary may lack it
};

/// BERT's WordPiece tokenizer, uncased unless its options say otherwise: the same ids as transformers' BertTokenizer.
/// All methods are const after construction, so threads may share one.
class WordPiece {
 public:
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

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

  /// The file that load() can read again: its name, kPlainFile or kFile, and its text.
  const char* file() const { return json_.empty() ? kPlainFile : kFile; }
  std::string content() const;

  /// The text of a tokenizer.json, which transformers can read.
  std::string json() const;

  /// The ids of the text, without [CLS] and [SEP] around them; only the first `limit`. A special token in the text has its
  /// meaning.
  std::vector<int64_t> encode(std::string_view text, size_t limit = kNoLimit) const;

  /// [CLS] tokens [SEP]; tokens at the end are dropped where it would be longer than `max_length`.
  /// Throws: InvalidArgument where max_length is below 2.
  std::vector<int64_t> encode_review(std::string_view text, int64_t max_length) const;

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  const std::string& piece(int64_t id) const { return pieces_.at(static_cast<size_t>(id)); }

  int64_t unknown_id() const { return unknown_; }
  int64_t class_id() const { return class_; }
  int64_t separator_id() const { return separator_; }
  int64_t padding_id() const { return padding_; }

 private:
  WordPiece(std::vector<std::string> pieces, const std::vector<std::string>& word_pieces,
            const WordPieceOptions& options, std::vector<AddedToken> added, const std::string& name);

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using Ids = std::unordered_map<std::string, int64_t, Hash, std::equal_to<>>;

  void encode_plain(std::string_view text, const BertWordOptions& options, size_t limit,
                    std::vector<int64_t>& ids) const;
  void encode_word(std::string_view word, std::vector<int64_t>& ids) const;

  std::vector<std::string> pieces_;
  Ids beginnings_;     // pieces that begin a word
  Ids continuations_;  // pieces that continue a word, without their "##"
  size_t longest_ = 0;
  WordPieceOptions options_;
  std::vector<AddedToken> all_added_;
  AddedTokens added_, added_to_normalized_;
  Specials specials_ = Specials::count;
  std::string json_;  // if it was made from one
  int64_t unknown_ = 0, class_ = 0, separator_ = 0, padding_ = 0;
};

}  // namespace adjoin::data
