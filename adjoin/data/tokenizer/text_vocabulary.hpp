#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::data {

/// The file of a language model's vocabulary, in a model's folder and in one of tokens.
inline constexpr const char* kVocabularyFile = "vocab.model";

/// Turns the texts of a language model into ids, and ids back into bytes, without loss: the bytes of a text's ids are the text,
/// even where it is not UTF-8. (A tokenizer from elsewhere may change texts: see bpe_vocabulary and WordPiece.) Values do not change after construction, so threads may share one.
class TextVocabulary {
 public:
  virtual ~TextVocabulary() = default;

  /// How many ids there are; all ids are below.
  virtual int64_t size() const = 0;

  /// The id after the last id of a document; it occurs in no text and has no bytes.
  virtual int64_t end_of_document() const = 0;

  /// The ids at which a generated text ends: end_of_document(), and then others with the same meaning.
  virtual std::vector<int64_t> ends() const { return {end_of_document()}; }

  /// The ids before each document and each prompt: a beginning-of-text token, or none.
  virtual std::vector<int64_t> beginning() const { return {}; }

  /// Appends the ids of a document's text; what looks like a special token is ordinary text.
  virtual void encode(std::string_view text, std::vector<int64_t>& ids) const = 0;

  /// Appends the ids of a text in which special tokens have their meaning.
  virtual void encode_with_special_tokens(std::string_view text, std::vector<int64_t>& ids) const { encode(text, ids); }

  /// The ids of a prompt: its beginning, its text with special tokens, and what the tokenizer adds at the end, which is nothing
  /// unless it is set to end all texts.
  virtual std::vector<int64_t> encode_prompt(std::string_view text) const;

  /// The bytes of one id. The bytes of several ids together may make up one UTF-8 character.
  /// Throws: InvalidArgument for a number that is not an id
  virtual std::string_view bytes_of(int64_t id) const = 0;

  /// The content of its file.
  virtual const std::string& content() const = 0;

  std::vector<int64_t> encode(std::string_view text) const;
  std::string decode(std::span<const int64_t> ids) const;

  /// Equal for vocabularies with equal content, whatever their files are called.
  uint64_t hash() const;
  void save(const std::string& path) const;

 protected:
  void require_id(int64_t id) const;
};

/// The 256 bytes, and the end of a document.
std::shared_ptr<const TextVocabulary> byte_vocabulary();

/// The vocabulary with this content; errors about it begin with `name`.
/// Throws: InvalidArgument
std::shared_ptr<const TextVocabulary> text_vocabulary(std::string content, const std::string& name);

/// Reads a vocabulary from its file, from a folder that adjoin wrote, or from a tokenizer as transformers writes it: see
/// read_tokenizer.
/// Throws: InvalidArgument where it is missing or not valid
std::shared_ptr<const TextVocabulary> load_text_vocabulary(const std::string& path);

/// The vocabulary that an option names: "bytes", or what load_text_vocabulary reads. Null for "subword" and "", which are to be
/// learned.
/// Throws: InvalidArgument as load_text_vocabulary
std::shared_ptr<const TextVocabulary> named_text_vocabulary(const std::string& name);

/// "bytes", or the vocabulary of a path, whether a decoder's or a classifier's; a file of another kind is a list of WordPiece's
/// pieces.
/// Throws: InvalidArgument as load_text_vocabulary and WordPiece::load
std::shared_ptr<const TextVocabulary> any_vocabulary(const std::string& name);

}  // namespace adjoin::data
