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

/// What turns the texts of a language model into ids and ids into bytes again, losing nothing: the bytes of the ids of a
/// text are the text, also where it is not UTF-8. (WordPiece, the classifier's, keeps neither case nor spaces. A tokenizer that
/// was made elsewhere may change texts: see bpe_vocabulary.) Values do not change after construction, so threads may share one.
class TextVocabulary {
 public:
  virtual ~TextVocabulary() = default;

  /// How many ids there are; they are below.
  virtual int64_t size() const = 0;

  /// The id that follows a document's last; no text has it, and it has no bytes.
  virtual int64_t end_of_document() const = 0;

  /// The ids at which a text ends that a model writes: end_of_document(), and behind it others that mean the same.
  virtual std::vector<int64_t> ends() const { return {end_of_document()}; }

  /// The ids that stand before each document and each prompt: a beginning-of-text token, or none.
  virtual std::vector<int64_t> beginning() const { return {}; }

  /// Appends the ids of a document's text, in which what looks like a special token is text as any other.
  virtual void encode(std::string_view text, std::vector<int64_t>& ids) const = 0;

  /// Appends the ids of a text in which special tokens count.
  virtual void encode_with_special_tokens(std::string_view text, std::vector<int64_t>& ids) const { encode(text, ids); }

  /// The ids of a prompt: its beginning, its text in which special tokens count, and what the tokenizer puts behind, which is
  /// nothing but where it was asked to end all texts.
  virtual std::vector<int64_t> encode_prompt(std::string_view text) const;

  /// The bytes of one id. Of ids one after another these may complete a character of UTF-8.
  /// Throws: InvalidArgument for what is no id
  virtual std::string_view bytes_of(int64_t id) const = 0;

  /// What its file holds.
  virtual const std::string& content() const = 0;

  std::vector<int64_t> encode(std::string_view text) const;
  std::string decode(std::span<const int64_t> ids) const;

  /// Tells vocabularies apart, whatever their files are called.
  uint64_t hash() const;
  void save(const std::string& path) const;

 protected:
  void require_id(int64_t id) const;
};

/// The 256 bytes, and the end of a document.
std::shared_ptr<const TextVocabulary> byte_vocabulary();

/// The vocabulary whose content this is; `name` begins what is said about a wrong one.
/// Throws: InvalidArgument
std::shared_ptr<const TextVocabulary> text_vocabulary(std::string content, const std::string& name);

/// Whether a path is the file in which adjoin keeps a vocabulary, or a folder that has one.
bool is_text_vocabulary(const std::string& path);

/// Reads the file of a vocabulary, a folder that adjoin wrote, or a tokenizer as transformers writes it: see read_tokenizer.
/// Throws: InvalidArgument where it is missing or is none
std::shared_ptr<const TextVocabulary> load_text_vocabulary(const std::string& path);

/// What an option says: "bytes", or what load_text_vocabulary reads. Nothing for "subword" and "", which is to be learned.
/// Throws: InvalidArgument as load_text_vocabulary
std::shared_ptr<const TextVocabulary> named_text_vocabulary(const std::string& name);

}  // namespace adjoin::data
