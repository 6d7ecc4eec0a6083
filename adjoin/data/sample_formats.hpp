#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/data/samples.hpp"

namespace adjoin::data {

/// Reads text files; each file's folder names its class.
std::unique_ptr<SampleReader> open_text_files(std::vector<std::filesystem::path> files, bool text_alone = false);

/// A path without the ".gz" at its end.
std::string_view without_gz(std::string_view path);

/// A user's text for an error: in quotes, on one line, and shortened.
std::string shortened(std::string text);

/// The first `most` names, each shortened, separated by commas.
std::string listed(const std::vector<std::string>& names, size_t most);

}  // namespace adjoin::data
