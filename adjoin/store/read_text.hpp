#pragma once

#include <filesystem>
#include <string>

namespace adjoin::train {

/// The text of a file. Throws: InvalidArgument where it cannot be read.
std::string read_text(const std::filesystem::path& path);
/// The same, but "" where it cannot be read.
std::string text_or_nothing(const std::filesystem::path& path);

}  // namespace adjoin::train
