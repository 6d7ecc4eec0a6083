#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace adjoin::data {

/// The steps in which BERT's tokenizers differ: the uncased one does all of them, the cased one only the last.
struct BertWordOptions {
  bool lower_case = true;
  bool strip_accents = true;
  bool sets_ideographs_apart = true;  // ideographs of Chinese, Japanese and Korean
};

/// The text as BERT's tokenizer changes it before it cuts it into words: control characters and bytes that are not UTF-8
/// dropped, a space for each character of white space and around each ideograph, accents stripped, lower-cased. Options can
/// switch some steps off.
/// Source: Devlin et al., NAACL 2019, as the tokenizers package implements it.
std::string bert_text(std::string_view text, const BertWordOptions& options = {});

/// The end of the word that begins at `begin` in such a text: a space or a punctuation character alone, or all up to the next
/// of these.
size_t bert_word_end(std::string_view text, size_t begin);

}  // namespace adjoin::data
