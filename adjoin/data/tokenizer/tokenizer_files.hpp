#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "adjoin/data/tokenizer/tokenizer_json.hpp"

namespace adjoin::data {

/// Whether there is such a file or folder; false where the path cannot be examined, as opening it will then report that.
bool is_file(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// The text of a file. Throws: InvalidArgument where it cannot be read or is too large for a tokenizer
std::string read_tokenizer_file(const std::filesystem::path& path);

/// The settings in the files beside a tokenizer: tokenizer_config.json, special_tokens_map.json, and generation_config.json or,
/// where there is none, the model's config.json.
class TokenizerSettings {
 public:
  explicit TokenizerSettings(const std::filesystem::path& folder);

  /// The class that writes older files: "LlamaTokenizer", without the "Fast" that some names have; "" if none is named.
  std::string tokenizer_class() const;
  bool flag(const char* key, bool otherwise) const { return data::flag(config_, key, otherwise); }

  /// The text of a token, such as "eos_token"; "" if the settings say that there is none, `otherwise` if they say nothing.
  std::string token(const char* key, const std::string& otherwise = "") const;

  /// The tokens, or ids, at which a text ends.
  TokenizerJson ends() const;

  /// Special tokens without a role.
  std::vector<std::string> more_special_tokens() const;
  /// Whether tokenizer_config.json has a list of them, which may be empty.
  bool lists_special_tokens() const { return field(config_, "additional_special_tokens").is_array(); }

  /// The tokens in the lists of added tokens.
  std::vector<AddedToken> added() const;

 private:
  TokenizerJson config_, special_, generation_, added_;
};

/// The content of a tokenizer.json that is equivalent to the older files. `settings` are those of their folder.
/// Throws: InvalidArgument
std::string from_vocab_txt(const std::filesystem::path& path, const TokenizerSettings& settings);
std::string from_vocab_json(const std::filesystem::path& vocab, const std::filesystem::path& merges,
                            const TokenizerSettings& settings);
std::string from_tokenizer_model(const std::filesystem::path& path, const TokenizerSettings& settings);

}  // namespace adjoin::data
