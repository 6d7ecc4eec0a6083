#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/data/tokenizer/text_map.hpp"

namespace adjoin::data {

/// A text that a tokenizer turns into one id before it cuts and merges.
struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool special = false;                 // has its meaning in prompts and not in documents
  bool lstrip = false, rstrip = false;  // includes the white space at its left or right
  bool single_word = false;             // only where no letter, digit or other character of a word is beside it
  bool normalized = false;              // is searched in the normalised text

  bool operator==(const AddedToken&) const = default;
};

/// Whether special tokens in a text have their meaning, or are ordinary text.
enum class Specials { count, are_text };

/// Added tokens, and where they occur in a text: from the left, and of tokens that begin at the same place the longest, as in
/// the tokenizers package.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Of several with the same content the first is used.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  /// Calls `visit` with the parts of a text in order, none of them empty: with a text part and a null pointer, or with a
  /// token's text (and the white space that it includes) and the token.
  template <class Visit>
  void cut(std::string_view text, Specials specials, Visit visit) const {
    size_t begin = 0;
    for (size_t from = 0; const auto match = find(text, from);) {
      from = match->end;
      if (specials == Specials::are_text && match->token->special) continue;
      if (match->token->single_word && is_within_word(*match, text)) continue;
      const Match taken = with_spaces(*match, text, begin);
      if (begin < taken.begin) visit(text.substr(begin, taken.begin - begin), static_cast<const AddedToken*>(nullptr));
      visit(text.substr(taken.begin, taken.end - taken.begin), taken.token);
      begin = taken.end;
    }
    if (begin < text.size()) visit(text.substr(begin), static_cast<const AddedToken*>(nullptr));
  }

 private:
  struct Match {
    size_t begin, end;
    const AddedToken* token;
  };
  std::optional<Match> find(std::string_view text, size_t from) const;
  static bool is_within_word(Match match, std::string_view text);
  static Match with_spaces(Match match, std::string_view text, size_t begin);

  std::vector<AddedToken> tokens_;
  TextMap<size_t> places_;
  std::array<std::vector<size_t>, 256> lengths_;  // lengths of the tokens that begin with this byte, the longest first
  std::string first_bytes_;
};

}  // namespace adjoin::data
