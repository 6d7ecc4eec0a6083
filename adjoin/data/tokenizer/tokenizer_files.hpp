#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "adjoin/data/tokenizer/tokenizer_json.hpp"

namespace adjoin::data {

/// Whether there is such a file or folder; false where the path cannot be examined, as opening it will then report that.
bool is_file(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// The text of a file. Throws: InvalidArgument where it cannot be read or is too large for a tokenizer
std::string read_tokenizer_file(const std::filesystem::path& path);

/// A JSON object with the order of its keys, which decides ids.
struct JsonFile {
  TokenizerJson json = TokenizerJson::object();
  std::map<std::string, std::vector<std::string>> keys;  // of the object under "", of each object in it under its key

  /// Calls `visit` with the keys and values of the object in a field, or with those of the whole file if `name` is "".
  template <class Visit>
  void visit(const std::string& name, Visit&& visit) const {
    const TokenizerJson& object = name.empty() ? json : field(json, name.c_str());
    std::set<std::string> seen;
    if (const auto found = keys.find(name); object.is_object() && found != keys.end())
      for (const std::string& key : found->second)
        if (seen.insert(key).second) visit(key, object.at(key));
  }
};

/// The files beside a tokenizer; each is an empty object where the folder lacks it.
struct SideFiles {
  explicit SideFiles(const std::filesystem::path& folder);

  std::string folder;
  JsonFile config;                  // tokenizer_config.json
  JsonFile special;                 // special_tokens_map.json
  JsonFile added;                   // added_tokens.json
  TokenizerJson generation, model;  // generation_config.json or, where there is none, config.json; config.json

  bool flag(const char* key, bool otherwise) const { return data::flag(config.json, key, otherwise); }

  /// The tokens, or ids, at which a text ends. `end`: the tokenizer's own, "" if it has none.
  TokenizerJson ends(const std::string& end) const;
};

}  // namespace adjoin::data
