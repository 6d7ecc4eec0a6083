#pragma once

#include <memory>
#include <string>

#include "adjoin/data/text_vocabulary.hpp"

namespace adjoin::data {

/// Where the content of a decoder's tokenizer.json names the ends of a text, in its "model": a list of tokens. The package
/// tokenizers does not look at it; a file without it has its end named in another file, the tokenizer's configuration.
inline constexpr const char* kEndsField = "adjoin_ends";

/// The vocabulary of a decoder's tokenizer.json: byte-pair encoding of bytes (GPT-2, Llama 3, Qwen 2), or of characters
/// (sentencepiece with byte fallback), with the ids that transformers 5 gives. The bytes of a text's ids are the text, but for
/// what the tokenizer itself changes: what it normalises, a space that it puts first, and what has no piece.
/// Throws: InvalidArgument that begins with `name`
std::shared_ptr<const TextVocabulary> bpe_vocabulary(std::string content, const std::string& name);

}  // namespace adjoin::data
