#include "adjoin/data/tokenizer/wordpiece.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <unordered_map>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/data/tokenizer/added_vocabulary.hpp"
#include "adjoin/data/tokenizer/character_classes.hpp"
#include "adjoin/data/tokenizer/tokenizer_folder.hpp"
#include "adjoin/data/tokenizer/tokenizer_parts.hpp"
#include "adjoin/data/tokenizer/wordpiece_parts.hpp"

namespace adjoin::data {
namespace {

/// What a file says of a classifier's tokenizer.
struct ClassifierSource {
  std::string content{};
  std::vector<std::string> pieces{};       // by id, "" where an id has none
  std::vector<std::string> word_pieces{};  // those into which words are cut, without added tokens alone
  WordPieceOptions options{};
  std::vector<AddedToken> added{};
  Specials specials = Specials::count;
};

/// The place of each piece; an empty one is none, or one into which nothing is cut.
std::unordered_map<std::string_view, int64_t> places_of(const std::vector<std::string>& pieces,
                                                        const std::string& name) {
  std::unordered_map<std::string_view, int64_t> places;
  for (int64_t id = 0; id < std::ssize(pieces); ++id) {
    const std::string& piece = pieces[static_cast<size_t>(id)];
    if (piece.empty()) continue;
    const auto [earlier, is_new] = places.try_emplace(piece, id);
    require(is_new, [&] {
      return name + ": line " + std::to_string(id + 1) + " repeats \"" + piece + "\" of line " +
             std::to_string(earlier->second + 1);
    });
  }
  return places;
}

TokenizerParts classifier_parts(ClassifierSource source, const std::string& name) {
  const WordPieceOptions& options = source.options;
  const auto places = places_of(source.pieces, name);
  std::vector<std::string_view> missing;
  const auto id_of = [&](std::string_view token) {
    const auto found = places.find(token);
    if (found == places.end()) missing.push_back(token);
    return found == places.end() ? -1 : found->second;
  };
  const int64_t unknown = id_of(options.unknown), first = id_of(options.first), last = id_of(options.last);
  const int64_t padding = id_of(options.padding);
  require(missing.empty(), [&] {
    return name + ": a vocabulary of " + std::to_string(source.pieces.size()) + " entries that lacks " +
           joined(missing) + "; expected one entry a line, among them " +
           joined(std::vector{options.unknown, options.first, options.last}) + " and " + options.padding;
  });
  return {.content = std::move(source.content),
          .normalizer = Normalizer(options.words),
          .words = WordCutting::berts(),
          .model = LongestPieces(source.word_pieces, unknown, options.longest_word),
          .added = std::move(source.added),
          .bytes = std::move(source.pieces),
          .ends = {last},
          .around = {.before = {first}, .behind = {last}},
          .in_documents = source.specials,
          .in_prompts = source.specials,
          .unknown = unknown,
          .padding = padding};
}

/// The special tokens of a plain vocabulary, as added tokens.
std::vector<AddedToken> special_tokens(const std::vector<std::string>& pieces) {
  const WordPieceOptions berts;
  std::vector<AddedToken> tokens;
  for (const std::string& token : {berts.unknown, berts.last, berts.padding, berts.first, berts.mask})
    if (const auto found = std::find(pieces.begin(), pieces.end(), token); found != pieces.end())
      tokens.push_back({.content = token, .id = found - pieces.begin(), .special = true});
  return tokens;
}

ClassifierSource plain_source(std::vector<std::string> pieces) {
  ClassifierSource source{.added = special_tokens(pieces)};
  for (const std::string& piece : pieces) source.content += piece + '\n';
  source.word_pieces = pieces;
  source.pieces = std::move(pieces);
  return source;
}

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

void require_wordpiece(const TokenizerJson& model, const std::string& name) {
  const std::string type = text_field(model, "type");
  const bool is_wordpiece = type == "WordPiece" || (type.empty() && model.contains("max_input_chars_per_word"));
  require(is_wordpiece, [&] {
    return name + ": model " + in_quotes(type) + " is not supported in a classifier; expected \"WordPiece\"";
  });
  const TokenizerJson& prefix = field(model, "continuing_subword_prefix");
  require(prefix.is_null() || prefix == "##", [&] {
    return name + ": model \"WordPiece\" with the prefix " + excerpt(prefix.dump()) + " is not supported";
  });
}

ClassifierSource read(std::string content, const std::string& name) {
  const TokenizerJson json = parse_json(content, name);
  const TokenizerJson& model = field(json, "model");
  require_wordpiece(model, name);
  ClassifierSource source{.content = std::move(content), .pieces = pieces_of(field(model, "vocab"), name)};
  source.word_pieces = source.pieces;
  source.added = added_tokens_of(json, source.pieces, name);
  if (flag(model, kSplitsField)) source.specials = Specials::are_text;
  WordPieceOptions& options = source.options;
  options.words = word_options_of(json, name);
  options.longest_word = longest_word_of(model, name);
  if (const std::string unknown = text_field(model, "unk_token"); !unknown.empty()) options.unknown = unknown;
  const auto has = [](const std::vector<std::string>& pieces, const std::string& token) {
    return std::find(pieces.begin(), pieces.end(), token) != pieces.end();
  };
  require(has(source.word_pieces, options.unknown),
          [&] { return name + ": the unknown token, " + in_quotes(options.unknown) + ", is not in the vocabulary"; });
  const Surroundings around = surroundings_of(json, std::ssize(source.pieces), name);
  require(around.before.size() == 1 && around.behind.size() == 1, [&] {
    return name + ": the post-processor puts " + counted(std::ssize(around.before), "token") + " before a text and " +
           std::to_string(around.behind.size()) + " behind it; a classifier needs one before and one behind";
  });
  options.first = source.pieces[static_cast<size_t>(around.before[0])];
  options.last = source.pieces[static_cast<size_t>(around.behind[0])];
  if (!has(source.pieces, options.padding)) options.padding = options.unknown;  // it is not used here
  return source;
}

}  // namespace

WordPiece::WordPiece(std::vector<std::string> pieces, const std::string& name)
    : WordPiece(classifier_parts(plain_source(std::move(pieces)), name), /*is_plain=*/true) {}

WordPiece::WordPiece(TokenizerParts parts, bool is_plain) : Tokenizer(std::move(parts)), is_plain_(is_plain) {}

WordPiece WordPiece::from_json(std::string content, const std::string& name) {
  ClassifierSource source = reading_json(name, [&] { return read(std::move(content), name); });
  return {classifier_parts(std::move(source), name), /*is_plain=*/false};
}

WordPiece WordPiece::load(const std::string& path) {
  if (is_tokenizer(path)) return from_json(read_tokenizer(path), path);
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), [&] { return path + ": cannot open the vocabulary: " + std::strerror(errno); });
  std::vector<std::string> pieces;
  for (std::string line; std::getline(file, line);) pieces.emplace_back(without_spaces_at_end(line));
  require(!file.bad(), [&] { return path + ": cannot read the vocabulary"; });
  require(!pieces.empty(), [&] { return path + ": the vocabulary is empty; expected one entry a line"; });
  return WordPiece(std::move(pieces), path);
}

std::string WordPiece::json() const {
  if (!is_plain_) return content();
  TokenizerJson json = wordpiece_parts({}), vocabulary = TokenizerJson::object();
  for (int64_t id = 0; id < size(); ++id) vocabulary[piece(id)] = id;
  json["version"] = "1.0";
  for (const char* key : {"truncation", "padding"}) json[key] = nullptr;
  json["added_tokens"] = TokenizerJson::array();
  for (const AddedToken& token : parts().added) json["added_tokens"].push_back(json_of(token));
  json["post_processor"] = template_of(piece(class_id()), piece(separator_id()), AddedVocabulary(vocabulary), true);
  json["model"]["vocab"] = std::move(vocabulary);
  return reading_json("the vocabulary", [&] { return json.dump(); });
}

int64_t WordPiece::unknown_id() const {
  return parts().unknown;
}

int64_t WordPiece::padding_id() const {
  return parts().padding;
}

std::vector<int64_t> WordPiece::encode_review(std::string_view text, int64_t max_length) const {
  require(max_length >= 2, [&] {
    return "encode_review: a review takes at least 2 tokens, [CLS] and [SEP]; got a maximum of " +
           std::to_string(max_length);
  });
  return encode_around(text, static_cast<size_t>(max_length));
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

}  // namespace adjoin::data
