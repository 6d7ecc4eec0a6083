#include "adjoin/data/tokenizer/bpe_json.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "adjoin/data/tokenizer/byte_alphabet.hpp"
#include "adjoin/data/tokenizer/text_steps.hpp"

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

std::string byte_piece(size_t byte) {
  char piece[8];
  std::snprintf(piece, sizeof piece, "<0x%02X>", static_cast<unsigned>(byte));
  return piece;
}

std::string with_spaces(std::string piece) {
  for (size_t at = 0; (at = piece.find(kSpaceSign, at)) != std::string::npos; ++at)
    piece.replace(at, kSpaceSign.size(), 1, ' ');
  return piece;
}

/// The text that each piece stands for.
std::vector<std::string> spelled(const BpeTokenizer& tokenizer) {
  std::vector<std::string> bytes(tokenizer.pieces.size());
  for (size_t id = 0; id < bytes.size(); ++id) {
    const std::string& piece = tokenizer.pieces[id];
    bytes[id] =
        tokenizer.parts.unit == BpeParts::Unit::byte ? bytes_of_piece(piece).value_or(piece) : with_spaces(piece);
  }
  for (size_t byte = 0; byte < 256; ++byte)
    if (const int32_t id = tokenizer.parts.fallback[byte]; id != BpeParts::kNone)
      bytes[static_cast<size_t>(id)] = static_cast<char>(byte);
  for (const AddedToken& token : tokenizer.added)
    bytes[static_cast<size_t>(token.id)] = token.special ? std::string() : token.content;
  if (tokenizer.parts.unknown != BpeParts::kNone) bytes[static_cast<size_t>(tokenizer.parts.unknown)].clear();
  return bytes;
}

}  // namespace

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

BpeTokenizer read_bpe(const TokenizerJson& tokenizer, BpeParts::Unit unit, const std::string& name) {
  const TokenizerJson& model = field(tokenizer, "model");
  const bool falls_back = flag(model, "byte_fallback");
  require(!falls_back || unit == BpeParts::Unit::character,
          [&] { return name + ": byte_fallback with pre_tokenizer \"ByteLevel\" is not supported"; });

  BpeTokenizer result;
  result.pieces = pieces_of(field(model, "vocab"), name);
  PieceIds ids;
  for (size_t id = 0; id < result.pieces.size(); ++id)
    if (!result.pieces[id].empty()) ids.emplace(result.pieces[id], static_cast<int32_t>(id));
  const auto id_of = [&](const std::string& piece) {
    const auto found = ids.find(piece);
    return found == ids.end() ? BpeParts::kNone : found->second;
  };

  BpeParts& parts = result.parts;
  parts.unit = unit;
  parts.fuse_unknown = flag(model, "fuse_unk");
  parts.whole_words = flag(model, "ignore_merges");
  for (const auto& [piece, id] : ids) {
    const auto text = unit == BpeParts::Unit::byte ? bytes_of_piece(piece) : std::optional(std::string(piece));
    if (text) parts.pieces.emplace(*text, id);
  }
  for (size_t byte = 0; byte < parts.fallback.size(); ++byte)
    parts.fallback[byte] = falls_back ? id_of(byte_piece(byte)) : BpeParts::kNone;
  if (const std::string unknown = text_field(model, "unk_token"); !unknown.empty()) {
    parts.unknown = id_of(unknown);
    require(parts.unknown != BpeParts::kNone,
            [&] { return name + ": the unknown token, " + in_quotes(unknown) + ", is not in the vocabulary"; });
  }
  parts.merges = merges_of(model, ids, name);

  std::vector<std::string> pieces = result.pieces;  // `ids` has views of the strings in result.pieces
  result.added = added_tokens_of(tokenizer, pieces, name);
  result.pieces = std::move(pieces);
  result.bytes = spelled(result);
  return result;
}

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

}  // namespace adjoin::data
