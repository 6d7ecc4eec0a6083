#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace adjoin::data {

// The categories of Unicode 8.0, which BERT's reference tokenizer uses. They do not depend on the version of the system's
// libraries, since a vocabulary only works if all its users agree.

/// Control, format or private use (Cc, Cf, Co), tab and line ends included.
bool is_control(char32_t point);

/// A mark without its own width, such as an accent (Mn).
bool is_nonspacing_mark(char32_t point);

/// Punctuation (P*) and every ASCII character that is not a letter, digit, space or control character, such as $ and ^.
bool is_punctuation(char32_t point);

/// White space that separates words: Zs, Zl, Zp, tab, line feed and carriage return.
bool is_white_space(char32_t point);

/// An ideograph of Chinese, Japanese or Korean, which BERT makes a word of its own.
bool is_cjk_ideograph(char32_t point);

/// The steps in which BERT's tokenizers differ: the uncased one does all of them, the cased one only the last.
struct BertWordOptions {
  bool lower_case = true;
  bool strip_accents = true;
  bool sets_ideographs_apart = true;  // ideographs of Chinese, Japanese and Korean

  bool operator==(const BertWordOptions&) const = default;
};

/// Cuts `text` into words as BERT's tokenizer does before it looks at its vocabulary, and calls `visit` with each: control
/// characters dropped, ideographs separated, accents stripped, lower-cased, cut at white space and at punctuation; a
/// punctuation character is itself a word. Bytes that are not UTF-8 are dropped. Options can switch some steps off.
/// Source: Devlin et al., NAACL 2019, as the tokenizers package implements it.
void for_each_bert_word(std::string_view text, const std::function<void(std::string_view)>& visit,
                        const BertWordOptions& options = {});

/// The text as it is before it is cut into words: one space for each character of white space, and around each ideograph.
std::string normalized_for_bert(std::string_view text, const BertWordOptions& options);

}  // namespace adjoin::data
