#include "adjoin/data/tokenizer/wordpiece_json.hpp"

#include <algorithm>
#include <utility>

#include "adjoin/data/tokenizer/tokenizer_json.hpp"

namespace adjoin::data {
namespace {

BertWordOptions word_options_of(const TokenizerJson& tokenizer, const std::string& name) {
  const TokenizerJson& normalizer = field(tokenizer, "normalizer");
  const TokenizerJson& pre_tokenizer = field(tokenizer, "pre_tokenizer");
  if (type_of(normalizer) != "BertNormalizer") refuse_part(name, "a classifier's normalizer", type_of(normalizer));
  if (type_of(pre_tokenizer) != "BertPreTokenizer")
    refuse_part(name, "a classifier's pre_tokenizer", type_of(pre_tokenizer));
  require(flag(normalizer, "clean_text", true),
          [&] { return name + ": normalizer \"BertNormalizer\" without clean_text is not supported"; });
  const bool lower_case = flag(normalizer, "lowercase", true);
  return {.lower_case = lower_case,
          .strip_accents = flag(normalizer, "strip_accents", lower_case),
          .sets_ideographs_apart = flag(normalizer, "handle_chinese_chars", true)};
}

size_t longest_word_of(const TokenizerJson& model, const std::string& name) {
  const TokenizerJson& longest = field(model, "max_input_chars_per_word");
  if (longest.is_null()) return kLongestWord;
  require(longest.is_number_integer() && longest >= 0, [&] {
    return name + ": max_input_chars_per_word is " + excerpt(longest.dump()) + ", expected an integer of 0 or more";
  });
  return longest.get<size_t>();
}

/// Reads the names of the tokens before and after a text.
void read_surroundings(const TokenizerJson& tokenizer, const std::vector<std::string>& pieces, const std::string& name,
                       WordPieceOptions& options) {
  if (field(tokenizer, "post_processor").is_null()) return;
  const Surroundings around = surroundings_of(tokenizer, std::ssize(pieces), name);
  require(around.before.size() == 1 && around.behind.size() == 1, [&] {
    return name + ": the post-processor puts " + counted(std::ssize(around.before), "token") + " before a text and " +
           std::to_string(around.behind.size()) + " behind it; a classifier needs one before and one behind";
  });
  options.first = pieces[static_cast<size_t>(around.before[0])];
  options.last = pieces[static_cast<size_t>(around.behind[0])];
}

WordPieceJson read(const std::string& content, const std::string& name) {
  const TokenizerJson json = parse_json(content, name);
  const TokenizerJson& model = field(json, "model");
  const std::string type = text_field(model, "type");
  const bool is_wordpiece = type == "WordPiece" || (type.empty() && model.contains("max_input_chars_per_word"));
  require(is_wordpiece, [&] {
    return name + ": model " + in_quotes(type) + " is not supported in a classifier; expected \"WordPiece\"";
  });
  const TokenizerJson& prefix = field(model, "continuing_subword_prefix");
  require(prefix.is_null() || prefix == "##", [&] {
    return name + ": model \"WordPiece\" with the prefix " + excerpt(prefix.dump()) + " is not supported";
  });

  WordPieceJson result;
  result.pieces = pieces_of(field(model, "vocab"), name);
  result.pieces_of_words = result.pieces.size();
  result.added = added_tokens_of(json, result.pieces, name);
  const auto gap = std::find(result.pieces.begin(), result.pieces.end(), "");
  require(gap == result.pieces.end(),
          [&] { return name + ": no piece has the id " + std::to_string(gap - result.pieces.begin()); });
  for (const AddedToken& token : result.added)
    require(!token.normalized, [&] {
      return name + ": added token " + in_quotes(token.content) +
             " has normalized set, which is not supported with WordPiece";
    });
  WordPieceOptions& options = result.options;
  options.words = word_options_of(json, name);
  options.longest_word = longest_word_of(model, name);
  if (const std::string unknown = text_field(model, "unk_token"); !unknown.empty()) options.unknown = unknown;
  read_surroundings(json, result.pieces, name, options);
  // Padding is not used here, so a tokenizer may lack it.
  if (std::find(result.pieces.begin(), result.pieces.end(), options.padding) == result.pieces.end())
    options.padding = options.unknown;
  return result;
}

TokenizerJson special_item(const std::string& token) {
  return TokenizerJson::object({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
}

TokenizerJson post_processor(const WordPieceOptions& options, const std::vector<std::string>& pieces) {
  const auto sequence = [](const char* id, int type) {
    return TokenizerJson::object({{"Sequence", {{"id", id}, {"type_id", type}}}});
  };
  TokenizerJson tokens = TokenizerJson::object();
  for (const std::string& token : {options.first, options.last}) {
    const auto id = std::find(pieces.begin(), pieces.end(), token) - pieces.begin();
    tokens[token] = {{"id", token}, {"ids", TokenizerJson::array({id})}, {"tokens", TokenizerJson::array({token})}};
  }
  TokenizerJson end_of_second = special_item(options.last);
  end_of_second["SpecialToken"]["type_id"] = 1;
  const TokenizerJson first = special_item(options.first), last = special_item(options.last);
  return {{"type", "TemplateProcessing"},
          {"single", TokenizerJson::array({first, sequence("A", 0), last})},
          {"pair", TokenizerJson::array({first, sequence("A", 0), last, sequence("B", 1), end_of_second})},
          {"special_tokens", tokens}};
}

}  // namespace

WordPieceJson read_wordpiece_json(const std::string& content, const std::string& name) {
  return reading_json(name, [&] { return read(content, name); });
}

std::string wordpiece_json(const std::vector<std::string>& pieces, const WordPieceOptions& options,
                           const std::vector<AddedToken>& added) {
  TokenizerJson vocabulary = TokenizerJson::object(), tokens = TokenizerJson::array();
  for (size_t id = 0; id < pieces.size(); ++id) vocabulary[pieces[id]] = id;
  for (const AddedToken& token : added) tokens.push_back(json_of(token));
  const TokenizerJson json = {{"version", "1.0"},
                              {"truncation", nullptr},
                              {"padding", nullptr},
                              {"added_tokens", tokens},
                              {"normalizer",
                               {{"type", "BertNormalizer"},
                                {"clean_text", true},
                                {"handle_chinese_chars", options.words.sets_ideographs_apart},
                                {"strip_accents", options.words.strip_accents},
                                {"lowercase", options.words.lower_case}}},
                              {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                              {"post_processor", post_processor(options, pieces)},
                              {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                              {"model",
                               {{"type", "WordPiece"},
                                {"unk_token", options.unknown},
                                {"continuing_subword_prefix", "##"},
                                {"max_input_chars_per_word", options.longest_word},
                                {"vocab", vocabulary}}}};
  return reading_json("the vocabulary", [&] { return json.dump(); });
}

}  // namespace adjoin::data
