#include "adjoin/data/tokenizer/longest_pieces.hpp"

#include <algorithm>

#include "adjoin/data/tokenizer/character_classes.hpp"

namespace adjoin::data {

bool is_too_long(std::string_view word, size_t longest) {
  return word.size() > longest && characters_in(word) > longest;
}

LongestPieces::LongestPieces(const std::vector<std::string>& pieces, int64_t unknown, size_t longest_word)
    : unknown_(unknown), longest_word_(longest_word) {
  for (size_t id = 0; id < pieces.size(); ++id) {
    const std::string& piece = pieces[id];
    if (piece.empty()) continue;
    longest_piece_ = std::max(longest_piece_, piece.size());
    if (piece.starts_with("##")) continuations_.emplace(piece.substr(2), static_cast<int64_t>(id));
    beginnings_.emplace(piece, static_cast<int64_t>(id));
  }
}

void LongestPieces::cut(std::string_view word, std::vector<int64_t>& ids) const {
  if (is_too_long(word, longest_word_)) return ids.push_back(unknown_);
  const size_t before = ids.size();
  for (size_t begin = 0; begin < word.size();) {
    const TextMap<int64_t>& known = begin == 0 ? beginnings_ : continuations_;
    size_t length = std::min(word.size() - begin, longest_piece_);
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
