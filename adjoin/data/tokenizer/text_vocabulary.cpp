#include "adjoin/data/tokenizer/text_vocabulary.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/data/tokenizer/bpe_vocabulary.hpp"
#include "adjoin/data/tokenizer/subword_vocabulary.hpp"
#include "adjoin/data/tokenizer/tokenizer_files.hpp"
#include "adjoin/data/tokenizer/tokenizer_folder.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"

namespace adjoin::data {
namespace {

constexpr int64_t kBytes = 256;

class ByteVocabulary final : public TextVocabulary {
 public:
  ByteVocabulary() {
    for (size_t byte = 0; byte < kBytes; ++byte) bytes_[byte] = static_cast<char>(byte);
  }

  int64_t size() const override { return kBytes + 1; }
  int64_t end_of_document() const override { return kBytes; }
  using TextVocabulary::encode;
  void encode(std::string_view text, std::vector<int64_t>& ids) const override {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }
  std::string_view bytes_of(int64_t id) const override {
    require_id(id);
    return id == kBytes ? std::string_view() : std::string_view(&bytes_[static_cast<size_t>(id)], 1);
  }
  const std::string& content() const override {
    static const std::string content = "adjoin: the vocabulary of bytes\n";
    return content;
  }

 private:
  std::array<char, kBytes> bytes_;
};

}  // namespace

std::vector<int64_t> TextVocabulary::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  encode(text, ids);
  return ids;
}

std::vector<int64_t> TextVocabulary::encode_prompt(std::string_view text) const {
  std::vector<int64_t> ids = beginning();
  encode_with_special_tokens(text, ids);
  return ids;
}

std::string TextVocabulary::decode(std::span<const int64_t> ids) const {
  std::string text;
  for (const int64_t id : ids) text += bytes_of(id);
  return text;
}

uint64_t TextVocabulary::hash() const {
  return mix(hash_of(content()));
}

void TextVocabulary::save(const std::string& path) const {
  std::ofstream file(path, std::ios::binary);
  file << content();
  file.close();
  if (!file) throw IoError(path + ": cannot write the vocabulary: " + std::strerror(errno));
}

void TextVocabulary::require_id(int64_t id) const {
  require(id >= 0 && id < size(),
          [&] { return "there is no token " + std::to_string(id) + " in a vocabulary of " + std::to_string(size()); });
}

std::shared_ptr<const TextVocabulary> byte_vocabulary() {
  return std::make_shared<const ByteVocabulary>();
}

std::shared_ptr<const TextVocabulary> text_vocabulary(std::string content, const std::string& name) {
  auto bytes = byte_vocabulary();
  if (content.starts_with('{')) return bpe_vocabulary(std::move(content), name);
  return content == bytes->content() ? bytes : subword_vocabulary(std::move(content), name);
}

std::shared_ptr<const TextVocabulary> load_text_vocabulary(const std::string& path) {
  const std::filesystem::path ours = std::filesystem::path(path) / kVocabularyFile;
  if (is_file(ours)) return load_text_vocabulary(ours.string());
  if (is_tokenizer(path)) return text_vocabulary(read_tokenizer(path), path);
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), [&] { return path + ": cannot open the vocabulary: " + std::strerror(errno); });
  std::string content(std::istreambuf_iterator<char>(file), {});
  require(!file.bad(), [&] { return path + ": cannot read the vocabulary"; });
  return text_vocabulary(std::move(content), path);
}

std::shared_ptr<const TextVocabulary> named_text_vocabulary(const std::string& name) {
  if (name.empty() || name == "subword") return nullptr;
  return name == "bytes" ? byte_vocabulary() : load_text_vocabulary(name);
}

std::shared_ptr<const TextVocabulary> any_vocabulary(const std::string& name) {
  const std::filesystem::path place(name);
  const bool is_ours = place.filename() == kVocabularyFile || is_file(place / kVocabularyFile);
  if (name == "bytes" || is_ours) return named_text_vocabulary(name);
  if (!is_tokenizer(name)) return std::make_shared<const WordPiece>(WordPiece::load(name));
  std::string content = read_tokenizer(name);
  if (!is_classifiers(content)) return text_vocabulary(std::move(content), name);
  return std::make_shared<const WordPiece>(WordPiece::from_json(std::move(content), name));
}

}  // namespace adjoin::data
