#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "adjoin/data/tokenizer/sentencepiece_model.hpp"
#include "adjoin/data/tokenizer/text_steps.hpp"
#include "adjoin/data/tokenizer/tokenizer_files.hpp"
#include "adjoin/data/tokenizer/wordpiece_json.hpp"

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;

/// The lines of a text without their ends; white space at the end is removed too, as no piece ends with it.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    lines.push_back(line);
  }
  return lines;
}

/// The list of added tokens for a tokenizer that is built here.
class TokenList {
 public:
  TokenList(const TokenizerJson& vocabulary, const TokenizerSettings& settings) : vocabulary_(vocabulary) {
    for (const auto& [piece, id] : vocabulary.items())
      if (id.is_number_integer()) go_beyond(id.get<int64_t>());
    for (const AddedToken& token : settings.added()) {
      tokens_.push_back(token);
      go_beyond(token.id);
    }
  }

  /// A special token, unless it is there already.
  void add(const std::string& content, bool special = true) {
    if (content.empty()) return;
    const auto is_it = [&](const AddedToken& token) { return token.content == content; };
    if (const auto found = std::find_if(tokens_.begin(), tokens_.end(), is_it); found != tokens_.end()) {
      found->special |= special;
      return;
    }
    const TokenizerJson& known = field(vocabulary_, content.c_str());
    tokens_.push_back({.content = content, .id = known.is_null() ? next_++ : known.get<int64_t>(), .special = special});
  }

  int64_t id_of(const std::string& content) const {
    for (const AddedToken& token : tokens_)
      if (token.content == content) return token.id;
    return -1;
  }

  TokenizerJson json() const {
    TokenizerJson list = TokenizerJson::array();
    for (const AddedToken& token : tokens_) list.push_back(json_of(token));
    return list;
  }

 private:
  /// Ids far out of range are refused later, as in any tokenizer.
  void go_beyond(int64_t id) { next_ = std::max(next_, std::min(id, int64_t{1} << 40) + 1); }

  const TokenizerJson& vocabulary_;
  std::vector<AddedToken> tokens_;
  int64_t next_ = 0;
};

/// The tokens before and after a text, if the settings ask for them (add_bos_token, add_eos_token).
TokenizerJson surroundings(const TokenizerSettings& settings, const TokenList& tokens, const std::string& beginning,
                           const std::string& end) {
  TokenizerJson single = TokenizerJson::array(), special = TokenizerJson::object();
  const auto add = [&](const std::string& token) {
    single.push_back(TokenizerJson::object({{"SpecialToken", {{"id", token}, {"type_id", 0}}}}));
    special[token] = {
        {"id", token}, {"ids", TokenizerJson::array({tokens.id_of(token)})}, {"tokens", TokenizerJson::array({token})}};
  };
  if (settings.flag("add_bos_token", false) && !beginning.empty()) add(beginning);
  single.push_back(TokenizerJson::object({{"Sequence", {{"id", "A"}, {"type_id", 0}}}}));
  if (settings.flag("add_eos_token", false) && !end.empty()) add(end);
  TokenizerJson pair = single;
  pair.push_back(TokenizerJson::object({{"Sequence", {{"id", "B"}, {"type_id", 1}}}}));
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

TokenizerJson byte_level(bool prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix_space}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

TokenizerJson split_by(const char* expression) {
  return {{"type", "Split"},
          {"pattern", TokenizerJson::object({{"Regex", expression}})},
          {"behavior", "Isolated"},
          {"invert", false}};
}

}  // namespace

std::string from_vocab_txt(const fs::path& path, const TokenizerSettings& settings) {
  const std::vector<std::string> pieces = lines_of(read_tokenizer_file(path));
  std::map<std::string_view, size_t> seen;
  for (size_t id = 0; id < pieces.size(); ++id) {
    const auto [earlier, is_new] = seen.try_emplace(pieces[id], id);
    require(is_new, [&] {
      return path.string() + ": line " + std::to_string(id + 1) + " repeats " + in_quotes(pieces[id]) + " of line " +
             std::to_string(earlier->second + 1);
    });
  }
  WordPieceOptions options;
  options.words.lower_case = settings.flag("do_lower_case", true);
  options.words.strip_accents = settings.flag("strip_accents", options.words.lower_case);
  options.words.sets_ideographs_apart = settings.flag("tokenize_chinese_chars", true);
  options.unknown = settings.token("unk_token", options.unknown);
  options.first = settings.token("cls_token", options.first);
  options.last = settings.token("sep_token", options.last);
  options.padding = settings.token("pad_token", options.padding);
  options.mask = settings.token("mask_token", options.mask);
  for (const std::string& token : {options.unknown, options.first, options.last})
    require(seen.contains(token), [&] {
      return path.string() + ": a vocabulary of " + std::to_string(pieces.size()) + " entries that lacks " + token;
    });
  std::vector<AddedToken> added = settings.added();
  for (const std::string& token : {options.padding, options.unknown, options.first, options.last, options.mask})
    if (const auto found = seen.find(token);
        found != seen.end() &&
        std::none_of(added.begin(), added.end(), [&](const AddedToken& its) { return its.content == token; }))
      added.push_back({.content = token, .id = static_cast<int64_t>(found->second), .special = true});
  return wordpiece_json(pieces, options, added);
}

std::string from_vocab_json(const fs::path& vocab, const fs::path& merges, const TokenizerSettings& settings) {
  const std::string name = settings.tokenizer_class();
  const bool is_qwen = name == "Qwen2Tokenizer";
  require(is_qwen || name.empty() || name == "GPT2Tokenizer", [&] {
    return vocab.string() + ": tokenizer_class " + in_quotes(name) +
           " with vocab.json and merges.txt is not supported; expected GPT2Tokenizer or Qwen2Tokenizer";
  });
  const TokenizerJson vocabulary = parse_json(read_tokenizer_file(vocab), vocab.string());
  require(vocabulary.is_object(), [&] { return vocab.string() + ": expected a JSON object of pieces and their ids"; });
  TokenizerJson pairs = TokenizerJson::array();
  for (const std::string& line : lines_of(read_tokenizer_file(merges)))
    if (!line.empty() && !line.starts_with("#version")) pairs.push_back(line);

  constexpr const char* kEnd = "<|endoftext|>";
  TokenList tokens(vocabulary, settings);
  const std::string beginning = settings.token("bos_token", is_qwen ? "" : kEnd);
  const std::string end = settings.token("eos_token", kEnd);
  for (const std::string& token :
       {beginning, end, settings.token("unk_token", kEnd), settings.token("pad_token", is_qwen ? kEnd : "")})
    tokens.add(token);
  for (const std::string& token : settings.more_special_tokens()) tokens.add(token);

  const bool prefix_space = settings.flag("add_prefix_space", false);
  TokenizerJson json = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  json["added_tokens"] = tokens.json();
  json["normalizer"] = is_qwen ? TokenizerJson{{"type", "NFC"}} : TokenizerJson();
  json["pre_tokenizer"] =
      is_qwen ? TokenizerJson{{"type", "Sequence"},
                              {"pretokenizers",
                               TokenizerJson::array({split_by(kQwen2Pattern), byte_level(prefix_space, false)})}}
              : byte_level(prefix_space, true);
  json["post_processor"] = surroundings(settings, tokens, beginning, end);
  json["decoder"] = byte_level(true, true);
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", ""},
                   {"end_of_word_suffix", ""},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", false}};
  json["model"]["vocab"] = vocabulary;
  json["model"]["merges"] = std::move(pairs);
  return json.dump();
}

std::string from_tokenizer_model(const fs::path& path, const TokenizerSettings& settings) {
  const std::string name = path.string();
  const std::string its_class = settings.tokenizer_class();
  require(its_class.empty() || its_class == "LlamaTokenizer", [&] {
    return name + ": tokenizer_class " + in_quotes(its_class) +
           " with tokenizer.model is not supported; expected LlamaTokenizer";
  });
  const SentencepieceModel model = read_sentencepiece_model(read_tokenizer_file(path), name);
  require(model.is_bpe, [&] { return name + ": model \"Unigram\" is not supported; expected \"BPE\""; });
  if (model.normalizes) refuse_part(name, "normalizer", "Precompiled");

  using Kind = SentencepieceModel::Piece::Kind;
  TokenizerJson vocabulary = TokenizerJson::object();
  for (size_t id = 0; id < model.pieces.size(); ++id) vocabulary[model.pieces[id].text] = id;
  TokenList tokens(vocabulary, settings);
  const std::string beginning = settings.token("bos_token", "<s>"), end = settings.token("eos_token", "</s>");
  const std::string unknown = settings.token("unk_token", "<unk>");
  for (const std::string& token : {beginning, end, unknown, settings.token("pad_token")}) tokens.add(token);
  for (const std::string& token : settings.more_special_tokens()) tokens.add(token);
  const bool lists_others = settings.lists_special_tokens();  // if so, transformers ignores those of the model
  for (const auto& piece : model.pieces)
    if (!lists_others && (piece.kind == Kind::control || piece.kind == Kind::user_defined))
      tokens.add(piece.text, piece.kind == Kind::control);
  TokenizerJson pairs = TokenizerJson::array();
  for (const auto& [left, right] : merges_of(model)) pairs.push_back(TokenizerJson::array({left, right}));

  const bool prefix_space = settings.flag("add_prefix_space", true);
  const char* scheme = !prefix_space ? "never" : settings.flag("legacy", false) ? "always" : "first";
  const std::string sign(kSpaceSign);
  TokenizerJson decoders = TokenizerJson::array(
      {{{"type", "Replace"}, {"pattern", TokenizerJson::object({{"String", sign}})}, {"content", " "}},
       TokenizerJson::object({{"type", "ByteFallback"}}),
       TokenizerJson::object({{"type", "Fuse"}})});
  if (prefix_space) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  TokenizerJson json = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"normalizer", nullptr}};
  json["added_tokens"] = tokens.json();
  json["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", sign}, {"prepend_scheme", scheme}, {"split", false}};
  json["post_processor"] = surroundings(settings, tokens, beginning, end);
  json["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", true},
                   {"byte_fallback", true},
                   {"ignore_merges", false}};
  json["model"]["vocab"] = vocabulary;
  json["model"]["merges"] = std::move(pairs);
  return reading_json(name, [&] { return json.dump(); });
}

}  // namespace adjoin::data
