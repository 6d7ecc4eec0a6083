#include "adjoin/data/wordpiece.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/data/bert_words.hpp"

namespace adjoin::data {
namespace {

constexpr std::string_view kContinuation = "##";
constexpr size_t kLongestWord = 100;  // characters
constexpr std::string_view kSpecialTokens[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};

bool is_first_byte(char c) {
  return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
}

/// The special token at the beginning of `text`, or nothing.
std::string_view special_token_at(std::string_view text) {
  for (const std::string_view token : kSpecialTokens)
    if (text.starts_with(token)) return token;
  return {};
}

}  // namespace

bool is_too_long(std::string_view word) {
  return word.size() > kLongestWord &&
         static_cast<size_t>(std::count_if(word.begin(), word.end(), is_first_byte)) > kLongestWord;
}

WordPiece::WordPiece(std::vector<std::string> pieces, const std::string& name) : pieces_(std::move(pieces)) {
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t id = 0; id < pieces_.size(); ++id) {
    const std::string_view piece = pieces_[id];
    const auto [earlier, is_new] = seen.try_emplace(piece, id);
    require(is_new, [&] {
      return name + ": line " + std::to_string(id + 1) + " repeats \"" + std::string(piece) + "\" of line " +
             std::to_string(earlier->second + 1);
    });
    longest_ = std::max(longest_, piece.size());
    if (piece.starts_with(kContinuation)) continuations_.emplace(piece.substr(2), static_cast<int64_t>(id));
    beginnings_.emplace(piece, static_cast<int64_t>(id));
  }
  std::vector<std::string_view> missing;
  const auto id_of = [&](std::string_view token) {
    const auto found = beginnings_.find(token);
    if (found != beginnings_.end()) return found->second;
    missing.push_back(token);
    return int64_t{-1};
  };
  unknown_ = id_of("[UNK]"), class_ = id_of("[CLS]"), separator_ = id_of("[SEP]"), padding_ = id_of("[PAD]");
  require(missing.empty(), [&] {
    return name + ": a vocabulary of " + std::to_string(pieces_.size()) + " entries that lacks " + joined(missing) +
           "; expected one entry a line, among them [UNK], [CLS], [SEP] and [PAD]";
  });
}

WordPiece WordPiece::load(const std::string& path) {
  require(!std::filesystem::is_directory(path), [&] { return path + ": is a folder; expected a vocab.txt"; });
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), [&] { return path + ": cannot open the vocabulary: " + std::strerror(errno); });
  std::vector<std::string> pieces;
  for (std::string line; std::getline(file, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    pieces.push_back(line);
  }
  require(!file.bad(), [&] { return path + ": cannot read the vocabulary"; });
  require(!pieces.empty(), [&] { return path + ": the vocabulary is empty; expected one entry a line"; });
  return WordPiece(std::move(pieces), path);
}

std::string WordPiece::content() const {
  std::string lines;
  for (const std::string& piece : pieces_) lines += piece + '\n';
  return lines;
}

std::vector<int64_t> WordPiece::encode(std::string_view text, size_t limit) const {
  std::vector<int64_t> ids;
  size_t begin = 0;
  for (size_t at = text.find('['); at != std::string_view::npos && ids.size() < limit;) {
    const std::string_view token = special_token_at(text.substr(at));
    const auto special = token.empty() ? beginnings_.end() : beginnings_.find(token);
    if (special == beginnings_.end()) {
      at = text.find('[', at + 1);
      continue;
    }
    encode_plain(text.substr(begin, at - begin), limit, ids);
    ids.push_back(special->second);
    begin = at + token.size();
    at = text.find('[', begin);
  }
  if (ids.size() < limit) encode_plain(text.substr(begin), limit, ids);
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

void WordPiece::encode_plain(std::string_view text, size_t limit, std::vector<int64_t>& ids) const {
  for_each_bert_word(text, [&](std::string_view word) {
    if (ids.size() < limit) encode_word(word, ids);
  });
}

void WordPiece::encode_word(std::string_view word, std::vector<int64_t>& ids) const {
  if (is_too_long(word)) return ids.push_back(unknown_);
  const size_t before = ids.size();
  for (size_t begin = 0; begin < word.size();) {
    const Ids& known = begin == 0 ? beginnings_ : continuations_;
    size_t length = std::min(word.size() - begin, longest_);
    auto found = known.find(word.substr(begin, length));
    while (found == known.end() && length > 1) found = known.find(word.substr(begin, --length));
    if (found == known.end()) {  // one part unknown makes the whole word unknown
      ids.resize(before);
      return ids.push_back(unknown_);
    }
    ids.push_back(found->second);
    begin += length;
  }
}

}  // namespace adjoin::data
