#include "adjoin/data/tokenizer/wordpiece.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/data/tokenizer/bert_words.hpp"
#include "adjoin/data/tokenizer/character_classes.hpp"
#include "adjoin/data/tokenizer/tokenizer_folder.hpp"
#include "adjoin/data/tokenizer/wordpiece_json.hpp"

namespace adjoin::data {
namespace {

constexpr std::string_view kContinuation = "##";

bool is_first_byte(char c) {
  return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
}

/// The special tokens of a vocabulary, as added tokens.
std::vector<AddedToken> special_tokens(const std::vector<std::string>& pieces, const WordPieceOptions& options) {
  std::vector<AddedToken> tokens;
  for (const std::string& token : {options.unknown, options.last, options.padding, options.first, options.mask})
    if (const auto found = std::find(pieces.begin(), pieces.end(), token); found != pieces.end())
      tokens.push_back({.content = token, .id = found - pieces.begin(), .special = true});
  return tokens;
}

}  // namespace

bool is_too_long(std::string_view word, size_t longest) {
  return word.size() > longest && static_cast<size_t>(std::count_if(word.begin(), word.end(), is_first_byte)) > longest;
}

WordPiece::WordPiece(std::vector<std::string> pieces, const std::string& name)
    : WordPiece(pieces, pieces, {}, special_tokens(pieces, {}), name) {}

WordPiece::WordPiece(std::vector<std::string> pieces, const std::vector<std::string>& word_pieces,
                     const WordPieceOptions& options, std::vector<AddedToken> added, const std::string& name)
    : pieces_(std::move(pieces)), options_(options) {
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t id = 0; id < pieces_.size(); ++id) {
    const std::string_view piece = pieces_[id];
    if (piece.empty()) continue;  // no piece has this id, or only an empty one, into which nothing is cut
    const auto [earlier, is_new] = seen.try_emplace(piece, id);
    require(is_new, [&] {
      return name + ": line " + std::to_string(id + 1) + " repeats \"" + std::string(piece) + "\" of line " +
             std::to_string(earlier->second + 1);
    });
    if (id >= word_pieces.size() || word_pieces[id].empty()) continue;
    longest_ = std::max(longest_, piece.size());
    if (piece.starts_with(kContinuation)) continuations_.emplace(piece.substr(2), static_cast<int64_t>(id));
    beginnings_.emplace(piece, static_cast<int64_t>(id));
  }
  std::vector<std::string_view> missing;
  const auto id_of = [&](std::string_view token) {
    const auto found = seen.find(token);
    if (found != seen.end()) return static_cast<int64_t>(found->second);
    missing.push_back(token);
    return int64_t{-1};
  };
  unknown_ = id_of(options.unknown), class_ = id_of(options.first), separator_ = id_of(options.last);
  padding_ = id_of(options.padding);
  require(missing.empty(), [&] {
    return name + ": a vocabulary of " + std::to_string(pieces_.size()) + " entries that lacks " + joined(missing) +
           "; expected one entry a line, among them " +
           joined(std::vector{options.unknown, options.first, options.last}) + " and " + options.padding;
  });
  std::vector<AddedToken> as_they_are, normalized;
  for (AddedToken& token : added) {
    all_added_.push_back(token);
    if (token.normalized) token.content = normalized_for_bert(token.content, options_.words);
    (token.normalized ? normalized : as_they_are).push_back(std::move(token));
  }
  added_ = AddedTokens(std::move(as_they_are));
  added_to_normalized_ = AddedTokens(std::move(normalized));
}

WordPiece WordPiece::from_json(std::string content, const std::string& name) {
  WordPieceJson read = read_wordpiece_json(content, name);
  WordPiece made(std::move(read.pieces), read.word_pieces, read.options, std::move(read.added), name);
  if (read.splits_special_tokens) made.specials_ = Specials::are_text;
  made.json_ = std::move(content);
  return made;
}

WordPiece WordPiece::load(const std::string& path) {
  if (is_tokenizer(path)) return from_json(read_tokenizer(path), path);
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), [&] { return path + ": cannot open the vocabulary: " + std::strerror(errno); });
  std::vector<std::string> pieces;
  for (std::string line; std::getline(file, line);) {
    pieces.push_back(std::string(without_spaces_at_end(line)));
  }
  require(!file.bad(), [&] { return path + ": cannot read the vocabulary"; });
  require(!pieces.empty(), [&] { return path + ": the vocabulary is empty; expected one entry a line"; });
  return WordPiece(std::move(pieces), path);
}

std::string WordPiece::content() const {
  if (!json_.empty()) return json_;
  std::string lines;
  for (const std::string& piece : pieces_) lines += piece + '\n';
  return lines;
}

std::string WordPiece::json() const {
  return json_.empty() ? wordpiece_json(pieces_, options_, all_added_) : json_;
}

std::vector<int64_t> WordPiece::encode(std::string_view text, size_t limit) const {
  std::vector<int64_t> ids;
  added_.cut(text, specials_, [&](std::string_view part, const AddedToken* token) {
    if (ids.size() >= limit) return;
    if (token != nullptr) return ids.push_back(token->id);
    if (added_to_normalized_.tokens().empty()) return encode_plain(part, options_.words, limit, ids);
    constexpr BertWordOptions kNone{.lower_case = false, .strip_accents = false, .sets_ideographs_apart = false};
    const std::string normal = normalized_for_bert(part, options_.words);
    added_to_normalized_.cut(normal, specials_, [&](std::string_view rest, const AddedToken* its) {
      if (its != nullptr)
        ids.push_back(its->id);
      else
        encode_plain(rest, kNone, limit, ids);
    });
  });
  ids.resize(std::min(ids.size(), limit));
  return ids;
}

std::vector<int64_t> WordPiece::encode_review(std::string_view text, int64_t max_length) const {
  require(max_length >= 2, [&] {
    return "encode_review: a review takes at least 2 tokens, [CLS] and [SEP]; got a maximum of " +
           std::to_string(max_length);
  });
  std::vector<int64_t> ids = encode(text, static_cast<size_t>(max_length - 2));
  ids.insert(ids.begin(), class_);
  ids.push_back(separator_);
  return ids;
}

void WordPiece::encode_plain(std::string_view text, const BertWordOptions& options, size_t limit,
                             std::vector<int64_t>& ids) const {
  for_each_bert_word(
      text,
      [&](std::string_view word) {
        if (ids.size() < limit) encode_word(word, ids);
      },
      options);
}

void WordPiece::encode_word(std::string_view word, std::vector<int64_t>& ids) const {
  if (is_too_long(word, options_.longest_word)) return ids.push_back(unknown_);
  const size_t before = ids.size();
  for (size_t begin = 0; begin < word.size();) {
    const Ids& known = begin == 0 ? beginnings_ : continuations_;
    size_t length = std::min(word.size() - begin, longest_);
    auto found = known.find(word.substr(begin, length));
    while (found == known.end() && length > 1) found = known.find(word.substr(begin, --length));
    if (found == known.end()) {  // one unknown part makes the whole word unknown
      ids.resize(before);
      return ids.push_back(unknown_);
    }
    ids.push_back(found->second);
    begin += length;
  }
}

}  // namespace adjoin::data
