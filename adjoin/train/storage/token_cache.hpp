#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "adjoin/data/samples.hpp"
#include "adjoin/data/token_file.hpp"

namespace adjoin::train {

/// The folder where tokens are kept from one start to the next: adjoin in $XDG_CACHE_HOME, or in ~/.cache. Nothing where
/// neither variable has an absolute path.
std::optional<std::filesystem::path> cache_folder();

/// Why there is no cache where cache_folder gives none.
inline constexpr const char* kNoCacheFolder = "neither XDG_CACHE_HOME nor HOME names a folder";

/// What tells one part of a data set from others and from what it was before: its files' places, sizes and times of
/// modification. Throws: InvalidArgument as sample_files does
nlohmann::ordered_json identity_of(const std::string& data, data::Part part);

/// The same of a file, or of all that lies below a folder.
nlohmann::ordered_json identity_of_files(const std::filesystem::path& path);

/// Where the cache keeps what a request asks for, named by the request's hash and `ending`. Nothing where there is no cache.
std::optional<std::filesystem::path> cache_place(const nlohmann::ordered_json& request, const char* ending);

/// Tokens that were kept, and what was said about them.
struct KeptTokens {
  data::TokenStore tokens;
  nlohmann::ordered_json about;
};

/// The tokens that were kept for a request, mapped. Nothing where there are none, what is there cannot be trusted, or the
/// request is null.
std::optional<KeptTokens> find_tokens(const nlohmann::ordered_json& request);

/// Keeps the tokens, of a vocabulary of `words`, that a request asks for.
/// Throws: IoError where the disk refuses; nothing is half-written
void keep_tokens(const nlohmann::ordered_json& request, const nlohmann::ordered_json& about,
                 const data::TokenStore& tokens, int64_t words);

}  // namespace adjoin::train
