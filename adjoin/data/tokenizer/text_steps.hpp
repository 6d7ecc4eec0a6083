#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "adjoin/data/tokenizer/character_classes.hpp"
#include "adjoin/data/tokenizer/tokenizer_json.hpp"
#include "adjoin/data/tokenizer/word_pattern.hpp"

namespace adjoin::data {

/// What sentencepiece writes for a space, U+2581.
inline constexpr std::string_view kSpaceSign = "\xe2\x96\x81";

/// What a tokenizer does to a text before it cuts it.
class Normalizer {
 public:
  Normalizer() = default;
  /// Throws: InvalidArgument that names a part which is unknown
  Normalizer(const TokenizerJson& part, const std::string& name);

  bool empty() const { return steps_.empty(); }
  std::string operator()(std::string_view text) const;

 private:
  struct ToNfc {};
  struct Prepend {
    std::string text;
  };
  struct Replace {
    std::string from, to;
  };
  std::vector<std::variant<ToNfc, Prepend, Replace>> steps_;
};

/// How a tokenizer cuts a text into the words that are merged by themselves.
class WordCutting {
 public:
  /// Throws: InvalidArgument that names a part which is unknown
  WordCutting(const TokenizerJson& part, const std::string& name);

  /// Whether pieces are of bytes (ByteLevel), not of characters.
  bool is_byte_level() const { return is_byte_level_; }

  /// Calls `visit` with the words of a part of a text. `is_first`: it is the beginning of the whole text.
  template <class Visit>
  void operator()(std::string_view text, bool is_first, Visit&& visit) const {
    cut(text, is_first, 0, visit);
  }

 private:
  struct PrefixSpace {};  // a space before what has none
  struct Digits {
    bool apart;  // each by itself, not runs of them
  };
  struct Metaspace {
    enum class Prefix { never, first, always } prefix;
    bool splits;
  };
  using Step = std::variant<WordPattern, PrefixSpace, Digits, Metaspace>;

  void add(const TokenizerJson& part, const std::string& name);

  /// Where the word ends that a step cuts off at `begin`.
  static size_t end_of(const Step& step, std::string_view text, size_t begin);
  /// What a step makes of a text before it cuts it; nothing where it leaves it as it is.
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
