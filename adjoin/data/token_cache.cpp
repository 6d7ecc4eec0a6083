#include "adjoin/data/token_cache.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kTokenEnding = ".tokens";  // the text in the file distinguishes requests with equal hashes

/// A file's name, with that of its class if a folder gives one. Reviews are kept in pos and neg from the first versions on,
/// without these names.
std::string name_of(const fs::path& file) {
  const std::string name = file.filename().string(), folder = file.parent_path().filename().string();
  return file.extension() != ".txt" || folder == "pos" || folder == "neg" ? name : folder + "/" + name;
}

/// The identity of some files in a folder, which have these names.
Json identity_under(const fs::path& place, const std::vector<fs::path>& files,
                    std::string (*name_of)(const fs::path&)) {
  std::vector<int64_t> numbers;
  for (const fs::path& file : files) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) status = {};  // reading the file will report what is wrong
    const auto name = static_cast<int64_t>(hash_of(name_of(file)));
    numbers.insert(numbers.end(), {name, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec});
  }
  std::error_code none;
  return {{"place", hexadecimal(hash_of(fs::canonical(place, none).string()))},
          {"files", files.size()},
          {"state", hexadecimal(mix(hash_of(std::span<const int64_t>(numbers))))}};
}

}  // namespace

std::optional<fs::path> cache_folder() {
  const auto absolute = [](const char* variable) -> std::optional<fs::path> {
    const char* value = std::getenv(variable);
    if (value == nullptr || value[0] != '/') return std::nullopt;
    return value;
  };
  if (const auto cache = absolute("XDG_CACHE_HOME")) return *cache / "adjoin";
  if (const auto home = absolute("HOME")) return *home / ".cache" / "adjoin";
  return std::nullopt;
}

Json identity_of(const std::string& data, Part part) {
  const std::vector<fs::path> files = sample_files(data, part);
  return identity_under(files.front(), files, name_of);
}

Json identity_of_files(const fs::path& path) {
  std::vector<fs::path> files;
  std::error_code none;
  for (fs::recursive_directory_iterator file(path, none), end; file != end; file.increment(none))
    files.push_back(file->path());
  std::sort(files.begin(), files.end());
  if (files.empty()) files.push_back(path);
  return identity_under(path, files, [](const fs::path& file) { return file.filename().string(); });
}

std::optional<fs::path> cache_place(const Json& request, const char* ending) {
  const auto folder = cache_folder();
  if (!folder) return std::nullopt;
  return *folder / (hexadecimal(mix(hash_of(request.dump()))) + ending);
}

std::optional<KeptTokens> find_tokens(const Json& request) {
  const auto place = cache_place(request, kTokenEnding);
  if (!place || request.is_null()) return std::nullopt;
  try {
    TokenFile file = map_token_file(*place);
    Json text = Json::parse(file.text);
    if (text.at("request") != request) return std::nullopt;
    return KeptTokens{std::move(file.tokens), std::move(text.at("about"))};
  } catch (const InvalidArgument&) {
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

void keep_tokens(const Json& request, const Json& about, const TokenStore& tokens, int64_t words) {
  const auto place = cache_place(request, kTokenEnding);
  if (!place) throw IoError(kNoCacheFolder);
  const fs::path folder = place->parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw IoError(folder.string() + ": " + error.message());
  TokenFileWriter file(*place, words);
  for (int64_t sample = 0; sample < tokens.size(); ++sample) file.add(tokens.ids(sample), tokens.label(sample));
  file.publish(Json{{"request", request}, {"about", about}}.dump());
}

}  // namespace adjoin::data
