#include "adjoin/data/tokenizer/subword_vocabulary.hpp"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/data/tokenizer/byte_alphabet.hpp"
#include "adjoin/data/tokenizer/text_steps.hpp"

namespace adjoin::data {
namespace {

namespace sp = sentencepiece;

constexpr size_t kLongestRun = 1 << 16;    // bytes that are encoded in one call
constexpr size_t kLongestSentence = 4000;  // bytes; sentencepiece ignores sentences of more than 4192

void require_ok(const sp::util::Status& status, const std::string& where) {
  require(status.ok(), [&] { return where + ": " + status.message(); });
}

/// The number of bytes at `at` that sentencepiece could not restore: a byte that is not UTF-8, or its sign for a space. 0:
/// none.
size_t length_of_lost(std::string_view text, size_t at, int code_point_length) {
  if (code_point_length == 0) return 1;
  return text.substr(at).starts_with(kSpaceSign) ? kSpaceSign.size() : 0;
}

/// Calls `run` with the parts of a text that sentencepiece preserves, in runs of at most `longest` bytes that end before a
/// space where possible, and `byte` with each byte in between.
template <class Run, class Byte>
void for_each_run(std::string_view text, size_t longest, Run run, Byte byte) {
  size_t begin = 0, at = 0, space = 0;
  const auto end_run = [&](size_t end) {
    if (end > begin) run(text.substr(begin, end - begin));
    begin = end;
  };
  while (at < text.size()) {
    const auto length = static_cast<size_t>(decode_utf8(text, at).length);
    if (const size_t lost = length_of_lost(text, at, static_cast<int>(length)); lost > 0) {
      end_run(at);
      for (size_t end = at + lost; at < end; ++at) byte(static_cast<unsigned char>(text[at]));
      begin = at;
      continue;
    }
    if (at + length - begin > longest) end_run(space > begin ? space : at);
    if (text[at] == ' ') space = at;
    at += length;
  }
  end_run(at);
}

class SubwordVocabulary final : public TextVocabulary {
 public:
  SubwordVocabulary(std::string content, const std::string& name) : content_(std::move(content)) {
    require(!content_.empty() && model_.LoadFromSerializedProto(content_).ok(),
            [&] { return name + ": is not a vocabulary of a language model"; });
    end_ = model_.eos_id();
    require(end_ >= 0, [&] { return name + ": the vocabulary has no piece </s> for the end of a document"; });
    for (size_t byte = 0; byte < bytes_.size(); ++byte) {
      bytes_[byte] = model_.PieceToId(byte_piece(byte));
      require(model_.IsByte(static_cast<int>(bytes_[byte])),
              [&] { return name + ": the vocabulary has no piece for each byte (byte_fallback)"; });
    }
    for (int id = 0; id < model_.GetPieceSize(); ++id) pieces_.push_back(spelled(id));
    for (size_t byte = 0; byte < bytes_.size(); ++byte)
      pieces_[static_cast<size_t>(bytes_[byte])] = static_cast<char>(byte);
    const std::string_view probe = "  A  \xef\xac\x81\n\t b ";  // has the ligature fi, which most normalisations split
    require(decode(encode(probe)) == probe,
            [&] { return name + ": the vocabulary changes texts (it normalises them, or adds or removes spaces)"; });
  }

  int64_t size() const override { return std::ssize(pieces_); }
  int64_t end_of_document() const override { return end_; }
  const std::string& content() const override { return content_; }
  using TextVocabulary::encode;

  void encode(std::string_view text, std::vector<int64_t>& ids) const override {
    std::vector<int> found;
    const auto run = [&](std::string_view part) {
      require_ok(model_.Encode(part, &found), "the text cannot be encoded");
      ids.insert(ids.end(), found.begin(), found.end());
    };
    for_each_run(text, kLongestRun, run, [&](unsigned char byte) { ids.push_back(bytes_[byte]); });
  }

  std::string_view bytes_of(int64_t id) const override {
    require_id(id);
    return pieces_[static_cast<size_t>(id)];
  }

 private:
  /// The text that a piece stands for, unless it is a byte.
  std::string spelled(int id) const {
    const bool has_text = !model_.IsControl(id) && !model_.IsUnknown(id);
    return has_text ? replaced(model_.IdToPiece(id), kSpaceSign, " ") : std::string();
  }

  std::string content_;
  sp::SentencePieceProcessor model_;
  std::vector<std::string> pieces_;
  std::array<int64_t, 256> bytes_{};
  int64_t end_ = 0;
};

/// Texts in the form from which sentencepiece can learn: without characters that it reserves for itself, in parts that are not
/// too long, and with a space at the end, as a space is a required character and might otherwise be in none.
class Sentences final : public sp::SentenceIterator {
 public:
  Sentences(const std::function<bool(std::string&)>& next, int64_t most) : next_text_(next), left_(most) { Next(); }

  bool done() const override { return at_ == parts_.size(); }
  const std::string& value() const override { return parts_[at_]; }
  sp::util::Status status() const override { return {}; }

  void Next() override {
    if (at_ < parts_.size()) ++at_;
    while (at_ == parts_.size() && left_ > 0 && next_text_(text_)) cut();
    if (at_ < parts_.size()) any_ = true;
    if (at_ == parts_.size() && any_ && !ended_) parts_.push_back(" "), ended_ = true;
  }

 private:
  void cut() {
    parts_.clear();
    at_ = 0;
    std::replace(text_.begin(), text_.end(), '\t', '\n');  // sentencepiece splits at tabs
    for_each_run(
        text_, kLongestSentence,
        [&](std::string_view part) {
          if (left_ > 0) parts_.emplace_back(part);
          left_ -= std::ssize(part);
        },
        [](unsigned char) {});
  }

  const std::function<bool(std::string&)>& next_text_;
  int64_t left_;
  std::string text_;
  std::vector<std::string> parts_;
  size_t at_ = 0;
  bool any_ = false, ended_ = false;
};

}  // namespace

std::shared_ptr<const TextVocabulary> learn_subwords(const std::function<bool(std::string&)>& next,
                                                     const SubwordOptions& options) {
  constexpr int64_t kFewest = 256 + 2;  // the bytes, <unk> and </s>
  require(options.size > kFewest, [&] {
    return "expected a vocabulary of more than " + std::to_string(kFewest) + " subwords, got a size of " +
           std::to_string(options.size);
  });
  Sentences sentences(next, options.text_bytes);
  require(!sentences.done(), [] { return "there is no text to learn a vocabulary from"; });
  const std::unordered_map<std::string, std::string> how = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(options.size)},
      {"hard_vocab_limit", "false"},  // fewer if there is nothing left to join
      {"character_coverage", "0.9995"},
      {"byte_fallback", "true"},
      {"required_chars", std::string(kSpaceSign)},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"bos_id", "-1"},
      {"pad_id", "-1"},
      {"unk_id", "0"},
      {"eos_id", "1"},
      {"num_threads", "1"},
      {"input_sentence_size", "0"},
      {"shuffle_input_sentence", "false"},
      {"minloglevel", "4"},  // else it would write to the terminal
  };
  std::string model;
  const sp::util::Status status = sp::SentencePieceTrainer::Train(how, &sentences, &model);
  require(std::string_view(status.message()).find("smaller than required_chars") == std::string_view::npos, [&] {
    return "a vocabulary of " + std::to_string(options.size) +
           " pieces is too small for all bytes and the texts' characters; choose a larger one";
  });
  require_ok(status, "a vocabulary of subwords cannot be learned");
  return subword_vocabulary(std::move(model), "the vocabulary that was learned");
}

std::shared_ptr<const TextVocabulary> subword_vocabulary(std::string content, const std::string& name) {
  return std::make_shared<const SubwordVocabulary>(std::move(content), name);
}

}  // namespace adjoin::data
