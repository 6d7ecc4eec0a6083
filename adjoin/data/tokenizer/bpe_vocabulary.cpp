#include "adjoin/data/tokenizer/bpe_vocabulary.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/data/tokenizer/bpe_json.hpp"
#include "adjoin/data/tokenizer/text_steps.hpp"

namespace adjoin::data {
namespace {

// Usual names for the end of a text, for a tokenizer.json without a configuration.
constexpr const char* kUsualEnds[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|eot_id|>", "<|im_end|>", "<eos>"};

void require_known_decoder(const TokenizerJson& tokenizer, const std::string& name) {
  constexpr std::string_view kKnown[] = {"ByteLevel", "ByteFallback", "Fuse", "Metaspace", "Replace", "Strip"};
  for_each_part(field(tokenizer, "decoder"), "decoders", [&](const TokenizerJson& part) {
    const std::string type = type_of(part);
    if (std::find(std::begin(kKnown), std::end(kKnown), type) == std::end(kKnown)) refuse_part(name, "decoder", type);
  });
}

std::vector<int64_t> ends_of(const TokenizerJson& tokenizer, const std::vector<std::string>& pieces,
                             const std::string& name) {
  const TokenizerJson& named = field(field(tokenizer, "model"), kEndsField);
  if (!named.is_null()) {
    require(!named.empty(), [&] { return name + ": the list of end-of-text tokens is empty"; });
    if (std::vector<int64_t> ends = ids_of_names(named, pieces, name); !ends.empty()) return ends;
  }
  for (const char* usual : kUsualEnds)
    if (const auto found = std::find(pieces.begin(), pieces.end(), usual); found != pieces.end())
      return {found - pieces.begin()};
  throw InvalidArgument(name + ": the tokenizer has no end-of-text token (eos_token in tokenizer_config.json)");
}

class BpeVocabulary final : public TextVocabulary {
 public:
  BpeVocabulary(std::string content, const TokenizerJson& json, const std::string& name)
      : BpeVocabulary(std::move(content), json, WordCutting(field(json, "pre_tokenizer"), name), name) {}

  int64_t size() const override { return std::ssize(bytes_); }
  int64_t end_of_document() const override { return ends_.front(); }
  std::vector<int64_t> ends() const override { return ends_; }
  std::vector<int64_t> beginning() const override { return around_.before; }
  const std::string& content() const override { return content_; }

  using TextVocabulary::encode;
  void encode(std::string_view text, std::vector<int64_t>& ids) const override {
    encode(text, Specials::are_text, ids);
  }
  void encode_with_special_tokens(std::string_view text, std::vector<int64_t>& ids) const override {
    encode(text, specials_of_prompts_, ids);
  }
  std::vector<int64_t> encode_prompt(std::string_view text) const override {
    std::vector<int64_t> ids = around_.before;
    encode(text, specials_of_prompts_, ids);
    ids.insert(ids.end(), around_.behind.begin(), around_.behind.end());
    return ids;
  }

  std::string_view bytes_of(int64_t id) const override {
    require_id(id);
    return bytes_[static_cast<size_t>(id)];
  }

 private:
  BpeVocabulary(std::string content, const TokenizerJson& json, WordCutting words, const std::string& name)
      : BpeVocabulary(std::move(content), json, words,
                      read_bpe(json, words.is_byte_level() ? BpeParts::Unit::byte : BpeParts::Unit::character, name),
                      name) {}

  BpeVocabulary(std::string content, const TokenizerJson& json, WordCutting words, BpeTokenizer tokenizer,
                const std::string& name)
      : content_(std::move(content)),
        normalizer_(field(json, "normalizer"), name),
        words_(std::move(words)),
        bpe_(std::move(tokenizer.parts)),
        bytes_(std::move(tokenizer.bytes)),
        ends_(ends_of(json, tokenizer.pieces, name)),
        around_(surroundings_of(json, std::ssize(bytes_), name)),
        specials_of_prompts_(flag(field(json, "model"), kSplitsField) ? Specials::are_text : Specials::count) {
    require_known_decoder(json, name);
    for (const int64_t end : ends_) bytes_[static_cast<size_t>(end)].clear();
    std::vector<AddedToken> as_they_are, normalized;
    std::stable_partition(tokenizer.added.begin(), tokenizer.added.end(),
                          [](const AddedToken& t) { return t.special; });
    for (AddedToken& token : tokenizer.added) {
      if (token.normalized) token.content = normalizer_(token.content);
      (token.normalized ? normalized : as_they_are).push_back(std::move(token));
    }
    added_ = AddedTokens(std::move(as_they_are));
    added_to_normalized_ = AddedTokens(std::move(normalized));
  }

  void encode(std::string_view text, Specials specials, std::vector<int64_t>& ids) const {
    const auto words = [&](std::string_view part, bool is_first) {
      words_(part, is_first, [&](std::string_view word) { bpe_.encode(word, ids); });
    };
    added_.cut(text, specials, [&](std::string_view part, const AddedToken* token) {
      if (token != nullptr) return ids.push_back(token->id);
      const bool is_first = part.data() == text.data() && !normalizer_.removes_first(part);
      if (normalizer_.empty() && added_to_normalized_.tokens().empty()) return words(part, is_first);
      const std::string normal = normalizer_(part);
      added_to_normalized_.cut(normal, specials, [&](std::string_view rest, const AddedToken* its) {
        if (its != nullptr) return ids.push_back(its->id);
        words(rest, is_first && rest.data() == normal.data());
      });
    });
  }

  std::string content_;
  Normalizer normalizer_;
  WordCutting words_;
  Bpe bpe_;
  std::vector<std::string> bytes_;  // by id
  std::vector<int64_t> ends_;
  Surroundings around_;
  Specials specials_of_prompts_;
  AddedTokens added_, added_to_normalized_;
};

}  // namespace

std::shared_ptr<const TextVocabulary> bpe_vocabulary(std::string content, const std::string& name) {
  return reading_json(name, [&]() -> std::shared_ptr<const TextVocabulary> {
    const TokenizerJson json = parse_json(content, name);
    require_bpe(json, name);
    return std::make_shared<const BpeVocabulary>(std::move(content), json, name);
  });
}

}  // namespace adjoin::data
