#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/data/tokenizer/tokenizer_files.hpp"

namespace adjoin::data {

/// A token in a file beside the tokenizer: a text alone, which is a special token, or an object that says how it is searched.
struct GivenToken {
  AddedToken token;
  bool is_text = false;
  bool says_normalized = true;

  bool operator==(const GivenToken&) const = default;
};

/// The added tokens that the files beside a tokenizer name, as transformers 5.24 collects them: tokens with a role
/// ("eos_token"), special tokens without one, and lists by id.
class SpecialTokens {
 public:
  /// `listed`: the added tokens of the folder's tokenizer.json, null without one.
  SpecialTokens(const SideFiles& files, const TokenizerJson& listed);

  /// The token with a role unless the files name one or say that there is none; "": none.
  void set_default(const std::string& role, const std::string& text);
  /// The special tokens of a sentencepiece model; those of `additional_special_tokens` no longer count.
  void set_of_model(std::vector<GivenToken> tokens);

  /// The text of the token with a role; "" if there is none.
  std::string text_of(const std::string& role) const;
  /// The tokens in lists, by their ids there.
  const std::map<int64_t, GivenToken>& listed() const { return listed_; }
  /// All tokens of lists are searched in the text as it is.
  void search_as_they_are();

  /// The tokens to add in this order to a tokenizer that has the added tokens `there`; some may be among them.
  std::vector<AddedToken> to_add(const std::vector<AddedToken>& there) const;
  /// The texts of all special tokens.
  std::vector<std::string> texts() const;

 private:
  using Named = std::vector<std::pair<std::string, GivenToken>>;

  void read_config(const JsonFile& config);
  void read_special_tokens_map(const JsonFile& file);
  void take_extra_object(const JsonFile& file, const char* key);
  std::vector<GivenToken> without_role() const;
  Named with_role() const;

  std::string folder_;
  std::map<std::string, std::optional<GivenToken>> roles_;  // those that the files mention
  Named specific_, specific_objects_;                       // roles that transformers itself does not know
  std::optional<TokenizerJson> extra_, additional_;
  std::optional<std::vector<GivenToken>> of_model_;
  std::map<int64_t, GivenToken> listed_;
};

}  // namespace adjoin::data
