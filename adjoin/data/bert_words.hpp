#pragma once

#include <functional>
#include <string_view>

namespace adjoin::data {

/// What BERT's tokenizers do differently: the uncased one all of it, the cased one the last alone.
struct BertWordOptions {
  bool lower_case = true;
  bool strip_accents = true;
  bool sets_ideographs_apart = true;  // of Chinese, Japanese and Korean

  bool operator==(const BertWordOptions&) const = default;
};

/// Cuts `text` into words as BERT's tokenizer does before it looks at its vocabulary, and hands each to
/// `visit`: control characters dropped, ideographs set apart, accents stripped, lower-cased, cut at white space and at
/// punctuation, which is a word of its own. Bytes that are not UTF-8 are dropped. Options may leave some of it out.
/// Source: Devlin et al., NAACL 2019, as the tokenizers package implements it.
void for_each_bert_word(std::string_view text, const std::function<void(std::string_view)>& visit,
                        const BertWordOptions& options = {});

}  // namespace adjoin::data
