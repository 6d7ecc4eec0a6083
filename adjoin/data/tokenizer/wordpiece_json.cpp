#include "adjoin/data/tokenizer/wordpiece_json.hpp"

#include <algorithm>
#include <utility>

#include "adjoin/data/tokenizer/added_vocabulary.hpp"
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
  result.word_pieces = result.pieces;
  result.added = added_tokens_of(json, result.pieces, name);
  result.splits_special_tokens = flag(model, kSplitsField);
  WordPieceOptions& options = result.options;
  options.words = word_options_of(json, name);
  options.longest_word = longest_word_of(model, name);
  if (const std::string unknown = text_field(model, "unk_token"); !unknown.empty()) options.unknown = unknown;
  require(std::find(result.word_pieces.begin(), result.word_pieces.end(), options.unknown) != result.word_pieces.end(),
          [&] { return name + ": the unknown token, " + in_quotes(options.unknown) + ", is not in the vocabulary"; });
  read_surroundings(json, result.pieces, name, options);
  // Padding is not used here, so a tokenizer may lack it.
  if (std::find(result.pieces.begin(), result.pieces.end(), options.padding) == result.pieces.end())
    options.padding = options.unknown;
  return result;
}

}  // namespace

WordPieceJson read_wordpiece_json(const std::string& content, const std::string& name) {
  return reading_json(name, [&] { return read(content, name); });
}

TokenizerJson wordpiece_parts(const WordPieceOptions& options) {
  return {{"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", options.words.sets_ideographs_apart},
            {"strip_accents", options.words.strip_accents},
            {"lowercase", options.words.lower_case}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", options.unknown},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", options.longest_word}}}};
}

std::string wordpiece_json(const std::vector<std::string>& pieces, const WordPieceOptions& options,
                           const std::vector<AddedToken>& added) {
  TokenizerJson json = wordpiece_parts(options), vocabulary = TokenizerJson::object();
  for (size_t id = 0; id < pieces.size(); ++id) vocabulary[pieces[id]] = id;
  json["version"] = "1.0";
  for (const char* key : {"truncation", "padding"}) json[key] = nullptr;
  json["added_tokens"] = TokenizerJson::array();
  for (const AddedToken& token : added) json["added_tokens"].push_back(json_of(token));
  json["post_processor"] = template_of(options.first, options.last, AddedVocabulary(vocabulary), true);
  json["model"]["vocab"] = std::move(vocabulary);
  return reading_json("the vocabulary", [&] { return json.dump(); });
}

}  // namespace adjoin::data
