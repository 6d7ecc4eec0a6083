#pragma once

#include <memory>
#include <string>

#include "adjoin/data/tokenizer/text_vocabulary.hpp"

namespace adjoin::data {

/// The field in the "model" of a decoder's tokenizer.json that names the ends of a text: a list of tokens. The tokenizers
/// package ignores it; for a file without it, another file, the tokenizer's configuration, names the end.
inline constexpr const char* kEndsField = "adjoin_ends";

/// The vocabulary of a decoder's tokenizer.json: byte-pair encoding of bytes (GPT-2, Llama 3, Qwen 2), or of characters
/// (sentencepiece with byte fallback), with the same ids as transformers 5. The bytes of a text's ids are the text, except for
/// what the tokenizer itself changes: what it normalises, a space that it puts first, and what has no piece.
/// Throws: InvalidArgument that begins with `name`
std::shared_ptr<const TextVocabulary> bpe_vocabulary(std::string content, const std::string& name);

}  // namespace adjoin::data
