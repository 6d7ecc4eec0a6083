#include "adjoin/data/tokenizer/class_tokenizers.hpp"

#include <algorithm>
#include <utility>

#include "adjoin/data/tokenizer/literal_pattern.hpp"
#include "adjoin/data/tokenizer/text_steps.hpp"
#include "adjoin/data/tokenizer/word_pattern.hpp"
#include "adjoin/data/tokenizer/wordpiece_parts.hpp"

namespace adjoin::data {
namespace {

TokenizerJson sequence(const char* members, TokenizerJson list) {
  return {{"type", "Sequence"}, {members, std::move(list)}};
}

TokenizerJson byte_level(bool prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix_space}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

TokenizerJson split_by(const std::string& expression) {
  return {{"type", "Split"},
          {"pattern", TokenizerJson::object({{"Regex", expression}})},
          {"behavior", "Isolated"},
          {"invert", false}};
}

TokenizerJson replacement(const char* pattern, const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", TokenizerJson::object({{pattern, from}})}, {"content", to}};
}

TokenizerJson metaspace(const char* scheme) {
  return {
      {"type", "Metaspace"}, {"replacement", std::string(kSpaceSign)}, {"prepend_scheme", scheme}, {"split", false}};
}

TokenizerJson bpe(const TokenizerJson& affix, bool fuse_unknown, bool byte_fallback) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", affix},
          {"end_of_word_suffix", affix},
          {"fuse_unk", fuse_unknown},
          {"byte_fallback", byte_fallback},
          {"ignore_merges", false}};
}

TokenizerJson bert_parts(const SideFiles& files, SpecialTokens& tokens) {
  WordPieceOptions options;
  options.words.lower_case = files.flag("do_lower_case", true);
  options.words.strip_accents = files.flag("strip_accents", options.words.lower_case);
  options.words.sets_ideographs_apart = files.flag("tokenize_chinese_chars", true);
  for (const auto& [role, text] : {std::pair("unk_token", &options.unknown),
                                   {"sep_token", &options.last},
                                   {"pad_token", &options.padding},
                                   {"cls_token", &options.first},
                                   {"mask_token", &options.mask}}) {
    tokens.set_default(role, *text);
    *text = tokens.text_of(role);
  }
  return wordpiece_parts(options);
}

TokenizerJson gpt2_parts(const SideFiles& files, SpecialTokens& tokens) {
  constexpr const char* kEnd = "<|endoftext|>";
  for (const char* role : {"bos_token", "eos_token", "unk_token"}) tokens.set_default(role, kEnd);
  tokens.set_default("pad_token", "");
  return {{"normalizer", nullptr},
          {"pre_tokenizer", byte_level(files.flag("add_prefix_space", false), true)},
          {"decoder", byte_level(true, true)},
          {"model", bpe("", false, false)}};
}

TokenizerJson qwen2_parts(const SideFiles& files, SpecialTokens& tokens) {
  constexpr const char* kEnd = "<|endoftext|>";
  for (const char* role : {"eos_token", "unk_token", "pad_token"}) tokens.set_default(role, kEnd);
  const bool prefix_space = files.flag("add_prefix_space", false);
  return {{"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer",
           sequence("pretokenizers", TokenizerJson::array({split_by(kQwen2Pattern), byte_level(prefix_space, false)}))},
          {"decoder", byte_level(true, true)},
          {"model", bpe("", false, false)}};
}

TokenizerJson decoder_of_characters(bool byte_fallback, bool fuses, bool prefix_space) {
  TokenizerJson decoders = TokenizerJson::array({replacement("String", std::string(kSpaceSign), " ")});
  if (byte_fallback) decoders.push_back(TokenizerJson::object({{"type", "ByteFallback"}}));
  if (fuses) decoders.push_back(TokenizerJson::object({{"type", "Fuse"}}));
  if (prefix_space) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence("decoders", decoders);
}

using Kind = SentencepieceModel::Piece::Kind;

TokenizerJson llama_parts(TokenizerSource& source, const SideFiles& files, SpecialTokens& tokens) {
  for (const auto& [role, text] : {std::pair("unk_token", "<unk>"), {"bos_token", "<s>"}, {"eos_token", "</s>"}})
    tokens.set_default(role, text);
  if (source.model) {
    for (const auto& [left, right] : merges_of(*source.model))
      source.merges.push_back(TokenizerJson::array({left, right}));
    std::vector<GivenToken> of_model;
    for (const auto& piece : source.model->pieces)
      if (piece.kind == Kind::control || piece.kind == Kind::user_defined)
        of_model.push_back({.token = {.content = piece.text, .special = piece.kind == Kind::control}});
    tokens.set_of_model(std::move(of_model));
  }
  const bool prefix_space = files.flag("add_prefix_space", true);
  const char* scheme = !prefix_space ? "never" : files.flag("legacy", false) ? "always" : "first";
  return {{"normalizer", nullptr},
          {"pre_tokenizer", metaspace(scheme)},
          {"decoder", decoder_of_characters(true, true, prefix_space)},
          {"model", bpe(nullptr, true, true)}};
}

/// Pieces with the names that added_tokens_decoder gives their ids, unless another piece has the name.
TokenizerJson renamed(const TokenizerJson& vocabulary, const std::map<int64_t, GivenToken>& names) {
  TokenizerJson result = TokenizerJson::object();
  for (const auto& [piece, id] : vocabulary.items()) {
    const auto name = names.find(id.get<int64_t>());
    const TokenizerJson& other = name == names.end() ? id : field(vocabulary, name->second.token.content.c_str());
    const bool is_free = name != names.end() && (other.is_null() || names.contains(other.get<int64_t>()));
    result[is_free ? name->second.token.content : piece] = id;
  }
  return result;
}

/// The tokenizer of a sentencepiece model without a class: it follows the settings in the model.
TokenizerJson sentencepiece_parts(TokenizerSource& source, const SideFiles& files, SpecialTokens& tokens) {
  const SentencepieceModel& model = *source.model;
  if (model.normalizes) refuse_part(source.file, "normalizer", "Precompiled");
  source.vocabulary = renamed(source.vocabulary, tokens.listed());
  if (model.adds_dummy_prefix) tokens.search_as_they_are();
  if (model.beginning_id >= 0) tokens.set_default("bos_token", model.beginning);
  if (model.end_id >= 0) tokens.set_default("eos_token", model.end);
  if (model.unknown_id >= 0) tokens.set_default("unk_token", model.unknown);

  std::vector<std::string> names(model.pieces.size());
  for (const auto& [piece, id] : source.vocabulary.items()) names[id.get<size_t>()] = piece;
  std::vector<GivenToken> of_model;
  std::vector<std::string> user_defined;
  for (size_t id = 0; id < names.size(); ++id) {
    if (model.pieces[id].kind == Kind::control)
      of_model.push_back({.token = {.content = model.pieces[id].text, .special = true}});
    if (model.pieces[id].kind == Kind::user_defined && !names[id].empty()) user_defined.push_back(names[id]);
  }
  tokens.set_of_model(std::move(of_model));
  for (const auto& [left, right] : merges_by_score(model, names))
    source.merges.push_back(TokenizerJson::array({left, right}));

  const bool legacy = files.config.json.contains("legacy") ? files.flag("legacy", false) : true;
  const std::string sign(kSpaceSign);
  TokenizerJson normalizers = TokenizerJson::array(), words = TokenizerJson::array();
  if (model.removes_extra_spaces) {
    normalizers.push_back(replacement("Regex", kSpacesAround, ""));
    normalizers.push_back(replacement("Regex", kSeveralSpaces, " "));
  }
  if (model.escapes_spaces) normalizers.push_back(replacement("String", " ", sign));
  if (model.adds_dummy_prefix) {
    if (legacy) normalizers.push_back(replacement("Regex", kSignFirst, sign + sign));
    words.push_back(metaspace(legacy ? "always" : "first"));
  }
  if (!user_defined.empty()) words.push_back(split_by(LiteralPattern::write(user_defined)));
  TokenizerJson bpe_model = bpe(nullptr, true, model.byte_fallback);
  bpe_model["unk_token"] = model.unknown;
  bpe_model["ignore_merges"] = !user_defined.empty();
  return {{"normalizer", sequence("normalizers", normalizers)},
          {"pre_tokenizer", words.empty() ? TokenizerJson() : sequence("pretokenizers", words)},
          {"decoder", decoder_of_characters(model.byte_fallback, model.byte_fallback || model.adds_dummy_prefix,
                                            model.adds_dummy_prefix)},
          {"model", std::move(bpe_model)}};
}

void require_model(const TokenizerSource& source, TokenizerClass its, const char* expected) {
  if (source.json.is_null()) return;
  const std::string type = text_field(source.json.at("model"), "type");
  require(type.empty() || type == expected, [&] {
    return source.file + ": model " + in_quotes(type) + " is not supported with " + name_of(its) + "; expected \"" +
           expected + "\"";
  });
}

}  // namespace

TokenizerJson parts_by_class(TokenizerClass its, TokenizerSource& source, const SideFiles& files,
                             SpecialTokens& tokens) {
  const bool has_json = !source.json.is_null();
  if (has_json && (its == TokenizerClass::as_it_is || its == TokenizerClass::llama))
    if (const TokenizerJson& padding = field(source.json, "padding"); padding.is_object())
      tokens.set_default("pad_token", text_field(padding, "pad_token"));
  if (has_json && its == TokenizerClass::as_it_is) return source.json;
  require_model(source, its, its == TokenizerClass::bert ? "WordPiece" : "BPE");
  if (has_json && its != TokenizerClass::bert) source.merges = field(source.json.at("model"), "merges");
  TokenizerJson parts = its == TokenizerClass::bert    ? bert_parts(files, tokens)
                        : its == TokenizerClass::gpt2  ? gpt2_parts(files, tokens)
                        : its == TokenizerClass::qwen2 ? qwen2_parts(files, tokens)
                        : its == TokenizerClass::llama ? llama_parts(source, files, tokens)
                                                       : sentencepiece_parts(source, files, tokens);
  for (const char* key : {"truncation", "padding"}) parts[key] = nullptr;
  parts["version"] = "1.0";
  if (its != TokenizerClass::bert) parts["model"]["merges"] = std::move(source.merges);
  return parts;
}

}  // namespace adjoin::data
