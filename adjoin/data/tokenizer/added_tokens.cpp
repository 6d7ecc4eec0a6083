#include "adjoin/data/tokenizer/added_tokens.hpp"

#include <algorithm>
#include <functional>

#include "adjoin/data/tokenizer/character_classes.hpp"

namespace adjoin::data {
namespace {

bool is_space_at(std::string_view text, size_t at) {
  return character_at(text, at).kind == CharacterClass::space;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (size_t place = 0; place < tokens_.size(); ++place) {
    const std::string& content = tokens_[place].content;
    if (content.empty() || !places_.try_emplace(content, place).second) continue;
    auto& lengths = lengths_[static_cast<unsigned char>(content[0])];
    if (lengths.empty()) first_bytes_ += content[0];
    lengths.push_back(content.size());
  }
  for (auto& lengths : lengths_) {
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, size_t from) const {
  const bool one_byte = first_bytes_.size() == 1;
  for (size_t at = from; at < text.size(); ++at) {
    if (one_byte && (at = text.find(first_bytes_[0], at)) == std::string_view::npos) break;
    for (const size_t length : lengths_[static_cast<unsigned char>(text[at])]) {
      if (length > text.size() - at) continue;
      if (const auto found = places_.find(text.substr(at, length)); found != places_.end())
        return Match{at, at + length, &tokens_[found->second]};
    }
  }
  return std::nullopt;
}

bool AddedTokens::is_within_word(Match match, std::string_view text) {
  const auto is_of_word = [&](size_t at) {
    const CodePoint point = decode_utf8(text, at);
    return point.length > 0 && is_word_character(point.value);
  };
  return (match.begin > 0 && is_of_word(character_before(text, match.begin, 0))) ||
         (match.end < text.size() && is_of_word(match.end));
}

AddedTokens::Match AddedTokens::with_spaces(Match match, std::string_view text, size_t begin) {
  if (match.token->lstrip)
    while (match.begin > begin) {
      const size_t before = character_before(text, match.begin, begin);
      if (!is_space_at(text, before)) break;
      match.begin = before;
    }
  if (match.token->rstrip)
    while (match.end < text.size() && is_space_at(text, match.end)) match.end += character_at(text, match.end).length;
  match.begin = std::max(match.begin, begin);
  match.end = std::max(match.end, begin);
  return match;
}

}  // namespace adjoin::data
