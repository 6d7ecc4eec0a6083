#include "adjoin/data/tokenizer/special_tokens.hpp"

#include <algorithm>
#include <utility>

namespace adjoin::data {
namespace {

constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

bool is_role(const std::string& key) {
  return std::find(std::begin(kRoles), std::end(kRoles), key) != std::end(kRoles);
}

/// A token from its object or text. Where it does not say so, ordinary tokens are searched in the normalised text and special
/// ones in the text as it is.
GivenToken given_token(const TokenizerJson& value, bool is_special = false) {
  if (!value.is_object()) return {.token = {.content = value.get<std::string>(), .special = true}, .is_text = true};
  const bool special = is_special || flag(value, "special");
  return {.token = {.content = value.at("content").get<std::string>(),
                    .special = special,
                    .lstrip = flag(value, "lstrip"),
                    .rstrip = flag(value, "rstrip"),
                    .single_word = flag(value, "single_word"),
                    .normalized = flag(value, "normalized", !special)},
          .says_normalized = value.contains("normalized")};
}

bool is_filled(const std::optional<TokenizerJson>& value) {
  return value && !value->empty() && *value != "" && *value != false;
}

template <class Named>
void set(Named& list, const std::string& name, const GivenToken& token) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& its) { return its.first == name; });
  if (found == list.end())
    list.emplace_back(name, token);
  else
    found->second = token;
}

}  // namespace

SpecialTokens::SpecialTokens(const SideFiles& files, const TokenizerJson& listed) : folder_(files.folder) {
  read_config(files.config);
  if (const auto decoder = files.config.json.find("added_tokens_decoder"); decoder != files.config.json.end()) {
    for (const auto& [id, token] : decoder->items())
      listed_[number_from<int64_t>(id, folder_ + "/tokenizer_config.json: an id in added_tokens_decoder")] =
          given_token(token);
    return;  // then transformers reads none of the other files
  }
  read_special_tokens_map(files.special);
  // transformers compares texts here, and has not made tokens of the objects in tokenizer_config.json yet.
  std::vector<std::string> special_texts;
  for (const auto& [role, token] : roles_)
    if (token && (files.special.json.contains(role) || !field(files.config.json, role.c_str()).is_object()))
      special_texts.push_back(token->token.content);
  for (const TokenizerJson& token : extra_ ? *extra_ : TokenizerJson())
    if (!token.contains("__type")) special_texts.push_back(given_token(token).token.content);
  files.added.visit("", [&](const std::string& content, const TokenizerJson& id) {
    const bool special = std::find(special_texts.begin(), special_texts.end(), content) != special_texts.end();
    listed_[id.get<int64_t>()] = {.token = {.content = content, .special = special, .normalized = !special}};
  });
  for (const TokenizerJson& token : listed) listed_[token.at("id").get<int64_t>()] = given_token(token);
}

void SpecialTokens::read_config(const JsonFile& config) {
  config.visit("", [&](const std::string& key, const TokenizerJson& value) {
    if (is_role(key))
      roles_[key] = value.is_null() ? std::nullopt : std::optional(given_token(value));
    else if (key == "extra_special_tokens")
      extra_ = value;
    else if (key == "additional_special_tokens")
      additional_ = value;
    else if (key.ends_with("_token") && value.is_string())
      set(specific_, key, given_token(value));
    else if (key.ends_with("_token") && value.is_object())
      set(specific_objects_, key, given_token(value));
  });
  const bool is_renamed = additional_ && !is_filled(extra_);
  if (is_renamed) extra_ = std::exchange(additional_, std::nullopt);
  take_extra_object(config, is_renamed ? "additional_special_tokens" : "extra_special_tokens");
  if (specific_.empty())
    config.visit("model_specific_special_tokens",
                 [&](const std::string& key, const TokenizerJson& value) { set(specific_, key, given_token(value)); });
}

void SpecialTokens::read_special_tokens_map(const JsonFile& file) {
  file.visit("", [&](const std::string& key, const TokenizerJson& value) {
    if (is_role(key)) {
      roles_[key] = value.is_null() ? std::nullopt : std::optional(given_token(value, true));
    } else if (key == "extra_special_tokens" && value.is_array()) {
      TokenizerJson all = extra_ && extra_->is_array() ? *extra_ : TokenizerJson::array();
      for (TokenizerJson token : value) {
        if (token.is_object()) token["special"] = true, token.erase("__type");
        if (std::find(all.begin(), all.end(), token) == all.end()) all.push_back(token);
      }
      extra_ = all;
    } else if (key == "extra_special_tokens") {
      extra_ = value;
    } else if (key == "additional_special_tokens") {
      additional_ = value;
    } else if (key.ends_with("_token") && (value.is_string() || value.is_object())) {
      set(specific_objects_, key, given_token(value, true));
    }
  });
  take_extra_object(file, "extra_special_tokens");
}

/// An object of special tokens gives each one a role.
void SpecialTokens::take_extra_object(const JsonFile& file, const char* key) {
  if (!extra_ || !extra_->is_object()) return;
  extra_.reset();
  file.visit(key,
             [&](const std::string& name, const TokenizerJson& value) { set(specific_, name, given_token(value)); });
}

void SpecialTokens::set_default(const std::string& role, const std::string& text) {
  if (roles_.contains(role)) return;
  roles_[role] = text.empty() ? std::nullopt : std::optional(GivenToken{{.content = text, .special = true}, true});
}

void SpecialTokens::set_of_model(std::vector<GivenToken> tokens) {
  of_model_ = std::move(tokens);
}

void SpecialTokens::search_as_they_are() {
  for (auto& [id, given] : listed_) given.token.normalized = false, given.says_normalized = true;
}

SpecialTokens::Named SpecialTokens::with_role() const {
  Named named, specific = specific_objects_;
  for (const char* role : kRoles)
    if (const auto found = roles_.find(role); found != roles_.end() && found->second)
      named.emplace_back(role, *found->second);
  for (const auto& [name, token] : specific_) set(specific, name, token);
  for (const auto& [name, token] : specific) set(named, name, token);
  return named;
}

std::vector<GivenToken> SpecialTokens::without_role() const {
  std::vector<GivenToken> tokens;
  if (!extra_ && of_model_) return *of_model_;
  const std::optional<TokenizerJson>& list = extra_ ? extra_ : additional_;
  if (!list || list->is_null()) return tokens;
  require(list->is_array(), [&] {
    return folder_ + ": the list of special tokens is " + excerpt(list->dump()) + ", expected texts in brackets";
  });
  for (const TokenizerJson& token : *list) tokens.push_back(given_token(token));
  return tokens;
}

std::string SpecialTokens::text_of(const std::string& role) const {
  for (const auto& [name, token] : with_role())
    if (name == role) return token.token.content;
  return {};
}

std::vector<AddedToken> SpecialTokens::to_add(const std::vector<AddedToken>& there) const {
  std::set<std::string> known;
  for (const AddedToken& token : there) known.insert(token.content);
  std::vector<GivenToken> wanted;
  for (const auto& [id, given] : listed_) {
    wanted.push_back(given);
    known.insert(given.token.content);
  }
  const auto want = [&](const GivenToken& token) {
    if (!known.contains(token.token.content) && std::find(wanted.begin(), wanted.end(), token) == wanted.end())
      wanted.push_back(token);
  };
  const Named named = with_role();
  for (const auto& [role, token] : named) want(token);
  for (const GivenToken& token : without_role()) want(token);

  std::vector<AddedToken> tokens;
  for (const GivenToken& given : wanted) {
    AddedToken token = given.token;
    const bool has_role = std::any_of(named.begin(), named.end(),
                                      [&](const auto& its) { return its.second.token.content == token.content; });
    if (has_role && !token.special) {
      token.special = true;
      if (!given.says_normalized) token.normalized = false;
    }
    tokens.push_back(token);
  }
  return tokens;
}

std::vector<std::string> SpecialTokens::texts() const {
  std::vector<std::string> all;
  const auto add = [&](const std::string& text) {
    if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
  };
  for (const auto& [name, token] : with_role()) add(token.token.content);
  for (const GivenToken& token : without_role()) add(token.token.content);
  return all;
}

}  // namespace adjoin::data
