#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "adjoin/data/tokenizer/tokenizer_json.hpp"

namespace adjoin::data {

/// Whether there is such a file or folder; not where it cannot be looked at, which opening it then says.
bool is_file(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// The text of a file. Throws: InvalidArgument where it cannot be read or is larger than any tokenizer's
std::string read_tokenizer_file(const std::filesystem::path& path);

/// What the files beside a tokenizer say of it: tokenizer_config.json, special_tokens_map.json, generation_config.json.
class TokenizerSettings {
 public:
  explicit TokenizerSettings(const std::filesystem::path& folder);

  /// Of a class that writes older files: "LlamaTokenizer", without the "Fast" that some have; "" where none is named.
  std::string tokenizer_class() const;
  bool flag(const char* key, bool otherwise) const { return data::flag(config_, key, otherwise); }

  /// The text of a token, such as "eos_token"; "" where it is said to be none, `otherwise` where nothing is said.
  std::string token(const char* key, const std::string& otherwise = "") const;

  /// The tokens, or ids, at which a text ends.
  TokenizerJson ends() const;

  /// Special tokens that have no role of their own.
  std::vector<std::string> more_special_tokens() const;
  /// Whether tokenizer_config.json has a list of them, which may be empty.
  bool lists_special_tokens() const { return field(config_, "additional_special_tokens").is_array(); }

  /// The tokens that stand in the lists of added ones.
  std::vector<AddedToken> added() const;

 private:
  TokenizerJson config_, special_, generation_, added_;
};

/// The content of a tokenizer.json for the older files. `settings` are those of their folder.
/// Throws: InvalidArgument
std::string from_vocab_txt(const std::filesystem::path& path, const TokenizerSettings& settings);
std::string from_vocab_json(const std::filesystem::path& vocab, const std::filesystem::path& merges,
                            const TokenizerSettings& settings);
std::string from_tokenizer_model(const std::filesystem::path& path, const TokenizerSettings& settings);

}  // namespace adjoin::data
