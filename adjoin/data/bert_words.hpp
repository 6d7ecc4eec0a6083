#pragma once

#include <functional>
#include <string_view>

namespace adjoin::data {

/// Cuts `text` into words as BERT's uncased tokenizer does before it looks at its vocabulary, and hands each to
/// `visit`: control characters dropped, ideographs set apart, accents stripped, lower-cased, cut at white space and at
/// punctuation, which is a word of its own. Bytes that are not UTF-8 are dropped.
/// Source: Devlin et al., NAACL 2019, as the tokenizers package implements it.
void for_each_bert_word(std::string_view text, const std::function<void(std::string_view)>& visit);

}  // namespace adjoin::data
