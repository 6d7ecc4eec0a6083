#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/data/tokenizer/bert_words.hpp"
#include "adjoin/data/tokenizer/tokenizer_json.hpp"
#include "adjoin/data/tokenizer/word_pattern.hpp"

namespace adjoin::data {

/// The character that sentencepiece writes for a space, U+2581.
inline constexpr std::string_view kSpaceSign = "\xe2\x96\x81";

/// The regular expressions by which transformers makes what sentencepiece does to a text first: it removes spaces around the
/// text, writes several spaces as one, and puts its sign also before a text that begins with the sign.
inline constexpr const char *kSpacesAround = R"(\A +| +\z)", *kSeveralSpaces = " {2,}", *kSignFirst = "\\A\xe2\x96\x81";

/// The text with another instead of each `from`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

/// Changes a text before the tokenizer cuts it.
class Normalizer {
 public:
  Normalizer() = default;
  /// Throws: InvalidArgument, with its name, for an unknown part
  Normalizer(const TokenizerJson& part, const std::string& name);
  /// That of BERT.
  explicit Normalizer(const BertWordOptions& options);

  bool empty() const { return steps_.empty(); }
  std::string operator()(std::string_view text) const;
  /// Whether it removes the first character of a text. Then the text does not count as the beginning of the whole one.
  bool removes_first(std::string_view text) const { return trims_spaces_ && text.starts_with(' '); }

 private:
  void add(const TokenizerJson& part, const std::string& name);

  std::vector<std::function<std::string(std::string_view)>> steps_;
  bool trims_spaces_ = false;
  size_t growth_ = 1;  // the most times that a text may become longer
};

/// Cuts a text into words; pieces are merged only within a word.
class WordCutting {
 public:
  /// Throws: InvalidArgument, with its name, for an unknown part
  WordCutting(const TokenizerJson& part, const std::string& name);
  /// That of BERT, for texts that BERT's normalizer has changed.
  static WordCutting berts();

  /// Whether pieces consist of bytes (ByteLevel), not of characters.
  bool is_byte_level() const { return is_byte_level_; }

  /// Calls `visit` with the words of a part of a text. `is_first`: it is the beginning of the whole text.
  template <class Visit>
  void operator()(std::string_view text, bool is_first, Visit&& visit) const {
    cut(text, is_first, 0, visit);
  }

 private:
  struct Step {
    /// The text as the step changes it before it cuts.
    std::function<std::string(std::string_view text, bool is_first)> change = nullptr;
    /// The end of the word that the step cuts off at `begin`.
    std::function<size_t(std::string_view text, size_t begin)> end_of = nullptr;
    bool drops_spaces = false;
  };

  WordCutting() = default;
  void add(const TokenizerJson& part, const std::string& name);
  void add_pattern(WordPattern pattern);
  void add_split(const TokenizerJson& part, const std::string& name);
  void add_metaspace(const TokenizerJson& part, const std::string& name);

  template <class Visit>
  void cut(std::string_view text, bool is_first, size_t number, Visit& visit) const {
    if (number == steps_.size()) return visit(text);
    const Step& step = steps_[number];
    const std::string changed = step.change ? step.change(text, is_first) : std::string();
    if (step.change) text = changed;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = step.end_of ? step.end_of(text, begin) : text.size();
      if (!step.drops_spaces || text[begin] != ' ')
        cut(text.substr(begin, end - begin), is_first && begin == 0, number + 1, visit);
      begin = end;
    }
  }

  std::vector<Step> steps_;
  bool is_byte_level_ = false;
};

/// Calls `visit` with each word of BERT's tokenizer.
template <class Visit>
void for_each_bert_word(std::string_view text, Visit&& visit, const BertWordOptions& options = {}) {
  WordCutting::berts()(bert_text(text, options), /*is_first=*/true, visit);
}

}  // namespace adjoin::data
