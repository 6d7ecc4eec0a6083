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

JsonFile read_if_there(const fs::path& path) {
  if (!is_file(path)) return {};
  JsonFile file;
  std::string outer;
  const auto note_key = [&](int depth, TokenizerJson::parse_event_t event, TokenizerJson& parsed) {
    if (event != TokenizerJson::parse_event_t::key || depth > 2) return true;
    const auto key = parsed.get<std::string>();
    if (depth == 1) outer = key;
    file.keys[depth == 1 ? "" : outer].push_back(key);
    return true;
  };
  file.json = parse_json(read_tokenizer_file(path), path.string(), note_key);
  require(file.json.is_object(), [&] { return path.string() + ": expected a JSON object"; });
  return file;
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

SideFiles::SideFiles(const fs::path& folder)
    : folder(folder.string()),
      config(read_if_there(folder / "tokenizer_config.json")),
      special(read_if_there(folder / "special_tokens_map.json")),
      added(read_if_there(folder / "added_tokens.json")),
      generation(read_if_there(folder /
                               (is_file(folder / "generation_config.json") ? "generation_config.json" : "config.json"))
                     .json),
      model(read_if_there(folder / "config.json").json) {}

TokenizerJson SideFiles::ends(const std::string& end) const {
  TokenizerJson ends = TokenizerJson::array();
  if (!end.empty()) ends.push_back(end);
  const TokenizerJson& ids = field(generation, "eos_token_id");
  if (ids.is_number()) ends.push_back(ids);
  if (ids.is_array()) ends.insert(ends.end(), ids.begin(), ids.end());
  return ends;
}

}  // namespace adjoin::data
