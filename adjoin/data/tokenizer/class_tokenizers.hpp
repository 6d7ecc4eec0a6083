#pragma once

#include <filesystem>
#include <optional>

#include "adjoin/data/tokenizer/sentencepiece_model.hpp"
#include "adjoin/data/tokenizer/special_tokens.hpp"
#include "adjoin/data/tokenizer/tokenizer_class.hpp"

namespace adjoin::data {

/// What the files of a tokenizer hold.
struct TokenizerSource {
  std::string file;          // the name for errors
  TokenizerJson json;        // tokenizer.json without the vocabulary; null if older files are read
  TokenizerJson vocabulary;  // an object of pieces and their ids
  TokenizerJson merges;      // a list
  std::optional<SentencepieceModel> model;
};

TokenizerSource source_of_tokenizer_json(const std::string& content, const std::string& file);
TokenizerSource source_of_vocab_json(const std::filesystem::path& vocab, const std::filesystem::path& merges);
TokenizerSource source_of_vocab_txt(const std::filesystem::path& path);
TokenizerSource source_of_tokenizer_model(const std::filesystem::path& path);

/// A tokenizer.json without vocabulary and added tokens, as transformers' class makes it of the source. Sets the class's
/// defaults of `tokens`.
/// Throws: InvalidArgument
TokenizerJson parts_by_class(TokenizerClass its, TokenizerSource& source, const SideFiles& files,
                             SpecialTokens& tokens);

}  // namespace adjoin::data
