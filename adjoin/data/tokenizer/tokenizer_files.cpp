#include "adjoin/data/tokenizer/tokenizer_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMostBytes = 256'000'000;  // the largest known tokenizer.json has 35 MB

/// The text of a token, which is a string, or an object with the text and how to search it.
std::string content_of(const TokenizerJson& token) {
  if (token.is_null()) return {};
  return token.is_object() ? token.at("content").get<std::string>() : token.get<std::string>();
}

AddedToken token_from(const TokenizerJson& token, int64_t id) {
  return {.content = token.at("content").get<std::string>(),
          .id = id,
          .special = flag(token, "special"),
          .lstrip = flag(token, "lstrip"),
          .rstrip = flag(token, "rstrip"),
          .normalized = flag(token, "normalized")};
}

TokenizerJson read_if_there(const fs::path& path) {
  if (!is_file(path)) return TokenizerJson::object();
  TokenizerJson json = parse_json(read_tokenizer_file(path), path.string());
  require(json.is_object(), [&] { return path.string() + ": expected a JSON object"; });
  return json;
}

}  // namespace

bool is_file(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(path, none);
}

bool is_folder(const fs::path& path) {
  std::error_code none;
  return fs::is_directory(path, none);
}

std::string read_tokenizer_file(const fs::path& path) {
  const std::string name = path.string();
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  require(!error, [&] { return name + ": cannot open the tokenizer: " + error.message(); });
  require(size <= kMostBytes, [&] {
    return name + ": has " + grouped(static_cast<int64_t>(size)) + " bytes, expected at most " +
           grouped(static_cast<int64_t>(kMostBytes));
  });
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), [&] { return name + ": cannot open the tokenizer: " + std::strerror(errno); });
  std::string content(std::istreambuf_iterator<char>(file), {});
  require(!file.bad(), [&] { return name + ": cannot read the tokenizer"; });
  return content;
}

TokenizerSettings::TokenizerSettings(const fs::path& folder)
    : config_(read_if_there(folder / "tokenizer_config.json")),
      special_(read_if_there(folder / "special_tokens_map.json")),
      generation_(read_if_there(
          folder / (is_file(folder / "generation_config.json") ? "generation_config.json" : "config.json"))),
      added_(read_if_there(folder / "added_tokens.json")) {}

std::string TokenizerSettings::tokenizer_class() const {
  std::string name = text_field(config_, "tokenizer_class");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

std::string TokenizerSettings::token(const char* key, const std::string& otherwise) const {
  for (const TokenizerJson* json : {&config_, &special_})
    if (json->contains(key)) return content_of(field(*json, key));
  return otherwise;
}

TokenizerJson TokenizerSettings::ends() const {
  TokenizerJson ends = TokenizerJson::array();
  if (const std::string end = token("eos_token"); !end.empty()) ends.push_back(end);
  const TokenizerJson& ids = field(generation_, "eos_token_id");
  if (ids.is_number()) ends.push_back(ids);
  if (ids.is_array()) ends.insert(ends.end(), ids.begin(), ids.end());
  return ends;
}

std::vector<std::string> TokenizerSettings::more_special_tokens() const {
  std::vector<std::string> tokens;
  for (const TokenizerJson* json : {&config_, &special_})
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"})
      if (const TokenizerJson& list = field(*json, key); list.is_array())
        for (const TokenizerJson& token : list) tokens.push_back(content_of(token));
  return tokens;
}

std::vector<AddedToken> TokenizerSettings::added() const {
  std::vector<AddedToken> tokens;
  for (const auto& [id, token] : field(config_, "added_tokens_decoder").items())
    tokens.push_back(token_from(token, number_from<int64_t>(id, "an id in added_tokens_decoder")));
  for (const auto& [content, id] : added_.items())
    if (std::none_of(tokens.begin(), tokens.end(), [&](const AddedToken& token) { return token.content == content; }))
      tokens.push_back({.content = content, .id = id.get<int64_t>(), .special = false, .normalized = true});
  std::sort(tokens.begin(), tokens.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return tokens;
}

}  // namespace adjoin::data
