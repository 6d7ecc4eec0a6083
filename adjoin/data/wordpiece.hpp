#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace adjoin::data {

/// Whether a word is longer than the 100 characters (BERT's max_input_chars_per_word) beyond which it is [UNK] in any
/// case.
bool is_too_long(std::string_view word);

/// BERT's uncased WordPiece tokenizer: the same ids as Hugging Face's BertWordPieceTokenizer with its defaults.
/// All methods are const after construction, so threads may share one.
class WordPiece {
 public:
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

  /// A tokenizer of these pieces; a piece's id is its place. Pieces inside a word begin with "##".
  /// Throws: InvalidArgument that begins with `name` where a special token lacks or a piece stands twice.
  explicit WordPiece(std::vector<std::string> pieces, const std::string& name = "vocabulary");

  /// Reads a vocab.txt: one piece a line.
  /// Throws: InvalidArgument where the file is missing or is no vocabulary.
  static WordPiece load(const std::string& path);

  /// The text of a vocab.txt that load() reads.
  std::string content() const;

  /// The ids of the text, without [CLS] and [SEP] around them; at most `limit` of them, the first.
  /// A special token that stands in the text is taken for itself.
  std::vector<int64_t> encode(std::string_view text, size_t limit = kNoLimit) const;

  /// [CLS] tokens [SEP], of which tokens at the end are left out where it would be longer than `max_length`.
  /// Throws: InvalidArgument where max_length is below 2.
  std::vector<int64_t> encode_review(std::string_view text, int64_t max_length) const;

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  const std::string& piece(int64_t id) const { return pieces_.at(static_cast<size_t>(id)); }

  int64_t unknown_id() const { return unknown_; }
  int64_t class_id() const { return class_; }
  int64_t separator_id() const { return separator_; }
  int64_t padding_id() const { return padding_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using Ids = std::unordered_map<std::string, int64_t, Hash, std::equal_to<>>;

  void encode_plain(std::string_view text, size_t limit, std::vector<int64_t>& ids) const;
  void encode_word(std::string_view word, std::vector<int64_t>& ids) const;

  std::vector<std::string> pieces_;
  Ids beginnings_;     // pieces that begin a word, and the special tokens
  Ids continuations_;  // pieces that go on, without their "##"
  size_t longest_ = 0;
  int64_t unknown_ = 0, class_ = 0, separator_ = 0, padding_ = 0;
};

}  // namespace adjoin::data
