#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "adjoin/data/samples.hpp"
#include "adjoin/data/token_store.hpp"

namespace adjoin::data {

/// The folder in which tokens are kept from one start to the next: adjoin in $XDG_CACHE_HOME, or in ~/.cache. None where
/// neither variable has an absolute path.
std::optional<std::filesystem::path> cache_folder();

/// Why there is no cache if cache_folder gives none.
inline constexpr const char* kNoCacheFolder = "neither XDG_CACHE_HOME nor HOME names a folder";

/// What distinguishes one part of a data set from others, and from its own earlier content: its files' paths, sizes and times
/// of modification. Throws: InvalidArgument as sample_files does
nlohmann::ordered_json identity_of(const std::string& data, Part part);

/// The same for a file, or for all files in a folder and its subfolders.
nlohmann::ordered_json identity_of_files(const std::filesystem::path& path);

/// The place in the cache for what a request describes; its name is the request's hash and `ending`. None where there is no
/// cache.
std::optional<std::filesystem::path> cache_place(const nlohmann::ordered_json& request, const char* ending);

/// Tokens from the cache, and what was said about them.
struct KeptTokens {
  TokenStore tokens;
  nlohmann::ordered_json about;
};

/// The tokens that were kept for a request, mapped. None where there are none, where what is there cannot be trusted, or where
/// the request is null.
std::optional<KeptTokens> find_tokens(const nlohmann::ordered_json& request);

/// Keeps the tokens for a request; their vocabulary has `words` pieces.
/// Throws: IoError where the disk refuses; no file is half-written
void keep_tokens(const nlohmann::ordered_json& request, const nlohmann::ordered_json& about, const TokenStore& tokens,
                 int64_t words);

}  // namespace adjoin::data
