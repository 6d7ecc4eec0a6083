#pragma once

#include <string>

#include "adjoin/data/tokenizer/tokenizer_json.hpp"

namespace adjoin::data {

/// How transformers reads the tokenizer of a folder. `as_it_is`: the parts of tokenizer.json count (TokenizersBackend, formerly
/// PreTrainedTokenizerFast). A class of a family takes only the vocabulary, merges and post-processor from it, and makes the
/// other parts itself. `unnamed`: nothing names a class.
enum class TokenizerClass { unnamed, as_it_is, bert, gpt2, qwen2, llama };

/// The class that transformers 5.24 takes. `config`: tokenizer_config.json; `model`: config.json; each an object, empty where the
/// folder lacks the file. `is_byte_level`: there is a tokenizer.json that names ByteLevel.
/// Throws: InvalidArgument for a class or a kind of model that is not known
TokenizerClass tokenizer_class(const TokenizerJson& config, const TokenizerJson& model, bool is_byte_level,
                               const std::string& folder);

/// Its name in transformers.
const char* name_of(TokenizerClass its);

}  // namespace adjoin::data
