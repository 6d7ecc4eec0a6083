#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "adjoin/data/tokenizer/character_classes.hpp"
#include "adjoin/data/tokenizer/literal_pattern.hpp"
#include "adjoin/data/tokenizer/tokenizer_json.hpp"
#include "adjoin/data/tokenizer/word_pattern.hpp"

namespace adjoin::data {

/// The character that sentencepiece writes for a space, U+2581.
inline constexpr std::string_view kSpaceSign = "\xe2\x96\x81";

/// The regular expressions by which transformers makes what sentencepiece does to a text first: it removes spaces around the
/// text, writes several spaces as one, and puts its sign also before a text that begins with the sign.
inline constexpr const char *kSpacesAround = R"(\A +| +\z)", *kSeveralSpaces = " {2,}", *kSignFirst = "\\A\xe2\x96\x81";

/// Changes a text before the tokenizer cuts it.
class Normalizer {
 public:
  Normalizer() = default;
  /// Throws: InvalidArgument, with its name, for an unknown part
  Normalizer(const TokenizerJson& part, const std::string& name);

  bool empty() const { return steps_.empty(); }
  std::string operator()(std::string_view text) const;
  /// Whether it removes the first character of a text. Then the text does not count as the beginning of the whole one.
  bool removes_first(std::string_view text) const;

 private:
  struct ToNfc {};
  struct TrimSpaces {};
  struct JoinSpaces {};
  struct DoubleFirstSign {};
  struct Prepend {
    std::string text;
  };
  struct Replace {
    std::string from, to;
  };
  std::vector<std::variant<ToNfc, TrimSpaces, JoinSpaces, DoubleFirstSign, Prepend, Replace>> steps_;
};

/// Cuts a text into words; pieces are merged only within a word.
class WordCutting {
 public:
  /// Throws: InvalidArgument, with its name, for an unknown part
  WordCutting(const TokenizerJson& part, const std::string& name);

  /// Whether pieces consist of bytes (ByteLevel), not of characters.
  bool is_byte_level() const { return is_byte_level_; }

  /// Calls `visit` with the words of a part of a text. `is_first`: it is the beginning of the whole text.
  template <class Visit>
  void operator()(std::string_view text, bool is_first, Visit&& visit) const {
    cut(text, is_first, 0, visit);
  }

 private:
  struct PrefixSpace {};  // adds a space before a text that does not begin with one
  struct Digits {
    bool apart;  // each digit alone, not runs of digits
  };
  struct Metaspace {
    enum class Prefix { never, first, always } prefix;
    bool splits;
  };
  using Step = std::variant<WordPattern, LiteralPattern, PrefixSpace, Digits, Metaspace>;

  void add(const TokenizerJson& part, const std::string& name);

  /// The end of the word that a step cuts off at `begin`.
  static size_t end_of(const Step& step, std::string_view text, size_t begin);
  /// The text as a step changes it before it cuts; none where it changes nothing.
  static std::optional<std::string> changed(const Step& step, std::string_view text, bool is_first);

  template <class Visit>
  void cut(std::string_view text, bool is_first, size_t number, Visit& visit) const {
    if (number == steps_.size()) return visit(text);
    const Step& step = steps_[number];
    const std::optional<std::string> other = changed(step, text, is_first);
    if (other) text = *other;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = end_of(step, text, begin);
      cut(text.substr(begin, end - begin), is_first && begin == 0, number + 1, visit);
      begin = end;
    }
  }

  std::vector<Step> steps_;
  bool is_byte_level_ = false;
};

}  // namespace adjoin::data
