#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/data/samples.hpp"

namespace adjoin::data {

/// Text files, each in a folder that names its class.
std::unique_ptr<SampleReader> open_text_files(std::vector<std::filesystem::path> files, bool text_alone = false);

/// A path without the ".gz" at its end.
std::string_view without_gz(std::string_view path);

/// A text of the user's for an error: in quotes, in one line, and not long.
std::string shortened(std::string text);

/// The first `most` of some names, each shortened, with commas between.
std::string listed(const std::vector<std::string>& names, size_t most);

}  // namespace adjoin::data
