#include "adjoin/data/tokenizer/bpe_vocabulary.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/data/tokenizer/byte_alphabet.hpp"
#include "adjoin/data/tokenizer/tokenizer.hpp"
#include "adjoin/data/tokenizer/tokenizer_parts.hpp"

namespace adjoin::data {
namespace {

using PieceIds = std::unordered_map<std::string_view, int32_t>;

/// The two pieces of a merge: "a b", or ["a", "b"].
std::pair<std::string, std::string> pair_of(const TokenizerJson& merge, const std::string& where) {
  if (merge.is_array()) {
    require(merge.size() == 2, [&] { return where + " has " + std::to_string(merge.size()) + " pieces, expected 2"; });
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  const auto line = merge.get<std::string>();
  const size_t space = line.find(' ');
  require(space != std::string::npos && line.find(' ', space + 1) == std::string::npos,
          [&] { return where + " is " + in_quotes(line) + "; expected two pieces with a space between"; });
  return {line.substr(0, space), line.substr(space + 1)};
}

std::vector<BpeParts::Merge> merges_of(const TokenizerJson& model, const PieceIds& ids, const std::string& name) {
  std::vector<BpeParts::Merge> merges;
  for (const TokenizerJson& merge : field(model, "merges")) {
    const auto where = [&] { return name + ": merge " + std::to_string(merges.size() + 1); };
    const auto [left, right] = pair_of(merge, where());
    const auto id_of = [&](const std::string& piece) {
      const auto found = ids.find(piece);
      require(found != ids.end(),
              [&] { return where() + " names " + in_quotes(piece) + ", which is not in the vocabulary"; });
      return found->second;
    };
    merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
  return merges;
}

void require_bpe(const TokenizerJson& tokenizer, const std::string& name) {
  const TokenizerJson& model = field(tokenizer, "model");
  const std::string type = text_field(model, "type");
  const bool is_bpe = type == "BPE" || (type.empty() && model.contains("merges"));  // older files name no type
  require(is_bpe,
          [&] { return name + ": model " + in_quotes(type) + " is not supported in a decoder; expected \"BPE\""; });
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    require(text_field(model, key).empty(),
            [&] { return name + ": model \"BPE\" with a " + key + " is not supported"; });
  const TokenizerJson& dropout = field(model, "dropout");
  require(dropout.is_null() || dropout == 0, [&] { return name + ": model \"BPE\" with dropout is not supported"; });
}

/// `pieces`: by id, without those of added tokens alone.
BpeParts bpe_of(const TokenizerJson& model, const std::vector<std::string>& pieces, bool is_byte_level,
                const std::string& name) {
  PieceIds ids;
  for (size_t id = 0; id < pieces.size(); ++id)
    if (!pieces[id].empty()) ids.emplace(pieces[id], static_cast<int32_t>(id));
  const auto id_of = [&](const std::string& piece) {
    const auto found = ids.find(piece);
    return found == ids.end() ? BpeParts::kNone : found->second;
  };

  BpeParts parts;
  parts.unit = is_byte_level ? BpeParts::Unit::byte : BpeParts::Unit::character;
  parts.fuse_unknown = flag(model, "fuse_unk");
  parts.whole_words = flag(model, "ignore_merges");
  for (const auto& [piece, id] : ids) {
    const auto text = is_byte_level ? bytes_of_piece(piece) : std::optional(std::string(piece));
    if (text) parts.pieces.emplace(*text, id);
  }
  const bool falls_back = flag(model, "byte_fallback");
  for (size_t byte = 0; byte < parts.fallback.size(); ++byte)
    parts.fallback[byte] = falls_back ? id_of(byte_piece(byte)) : BpeParts::kNone;
  if (const std::string unknown = text_field(model, "unk_token"); !unknown.empty()) {
    parts.unknown = id_of(unknown);
    require(parts.unknown != BpeParts::kNone,
            [&] { return name + ": the unknown token, " + in_quotes(unknown) + ", is not in the vocabulary"; });
  }
  parts.merges = merges_of(model, ids, name);
  return parts;
}

/// The text that each piece stands for; "" for special tokens and the unknown one.
std::vector<std::string> spelled(const std::vector<std::string>& pieces, const BpeParts& bpe,
                                 const std::vector<AddedToken>& added) {
  std::vector<std::string> bytes;
  for (const std::string& piece : pieces)
    bytes.push_back(bpe.unit == BpeParts::Unit::byte ? bytes_of_piece(piece).value_or(piece)
                                                     : replaced(piece, kSpaceSign, " "));
  for (size_t byte = 0; byte < 256; ++byte)
    if (const int32_t id = bpe.fallback[byte]; id != BpeParts::kNone)
      bytes[static_cast<size_t>(id)] = static_cast<char>(byte);
  for (const AddedToken& token : added)
    bytes[static_cast<size_t>(token.id)] = token.special ? std::string() : token.content;
  if (bpe.unknown != BpeParts::kNone) bytes[static_cast<size_t>(bpe.unknown)].clear();
  return bytes;
}

// Usual names for the end of a text, for a tokenizer.json without a configuration.
constexpr const char* kUsualEnds[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|eot_id|>", "<|im_end|>", "<eos>"};

void require_known_decoder(const TokenizerJson& tokenizer, const std::string& name) {
  constexpr std::string_view kKnown[] = {"ByteLevel", "ByteFallback", "Fuse", "Metaspace", "Replace", "Strip"};
  for_each_part(field(tokenizer, "decoder"), "decoders", [&](const TokenizerJson& part) {
    const std::string type = type_of(part);
    if (std::find(std::begin(kKnown), std::end(kKnown), type) == std::end(kKnown)) refuse_part(name, "decoder", type);
  });
}

/// The ids of a list of tokens, which may also be ids; each id once. Ids beyond the vocabulary are left out, as no text has them.
/// Throws: InvalidArgument for a token that is not in the vocabulary
std::vector<int64_t> ids_of_names(const TokenizerJson& names, const std::vector<std::string>& pieces,
                                  const std::string& name) {
  std::vector<int64_t> ids;
  for (const TokenizerJson& item : names) {
    if (item.is_number_integer()) {
      if (item >= 0 && item < pieces.size()) ids.push_back(item.get<int64_t>());
      continue;
    }
    const auto token = item.get<std::string>();
    const auto found = token.empty() ? pieces.end() : std::find(pieces.begin(), pieces.end(), token);
    require(found != pieces.end(),
            [&] { return name + ": the end-of-text token, " + in_quotes(token) + ", is not in the vocabulary"; });
    ids.push_back(found - pieces.begin());
  }
  std::vector<int64_t> once;
  for (const int64_t id : ids)
    if (std::find(once.begin(), once.end(), id) == once.end()) once.push_back(id);
  return once;
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

TokenizerParts bpe_tokenizer_parts(std::string content, const std::string& name) {
  const TokenizerJson json = parse_json(content, name);
  require_bpe(json, name);
  const TokenizerJson& model = field(json, "model");
  WordCutting words(field(json, "pre_tokenizer"), name);
  require(!flag(model, "byte_fallback") || !words.is_byte_level(),
          [&] { return name + ": byte_fallback with pre_tokenizer \"ByteLevel\" is not supported"; });
  std::vector<std::string> pieces = pieces_of(field(model, "vocab"), name);
  BpeParts bpe = bpe_of(model, pieces, words.is_byte_level(), name);
  std::vector<AddedToken> added = added_tokens_of(json, pieces, name);
  std::vector<std::string> bytes = spelled(pieces, bpe, added);
  Normalizer normalizer(field(json, "normalizer"), name);
  std::vector<int64_t> ends = ends_of(json, pieces, name);
  Surroundings around = surroundings_of(json, std::ssize(pieces), name);
  require_known_decoder(json, name);
  for (const int64_t end : ends) bytes[static_cast<size_t>(end)].clear();
  std::stable_partition(added.begin(), added.end(), [](const AddedToken& token) { return token.special; });
  return {.content = std::move(content),
          .normalizer = std::move(normalizer),
          .words = std::move(words),
          .model = Bpe(std::move(bpe)),
          .added = std::move(added),
          .bytes = std::move(bytes),
          .ends = std::move(ends),
          .around = std::move(around),
          .in_prompts = flag(model, kSplitsField) ? Specials::are_text : Specials::count};
}

}  // namespace

std::shared_ptr<const TextVocabulary> bpe_vocabulary(std::string content, const std::string& name) {
  return reading_json(name,
                      [&] { return std::make_shared<const Tokenizer>(bpe_tokenizer_parts(std::move(content), name)); });
}

}  // namespace adjoin::data
