#pragma once

#include <CLI/App.hpp>
#include <string>

namespace adjoin::cli {

/// Gives the options of `command` that were not on the command line the values of a TOML file.
/// Throws: InvalidArgument that names the file, the line, and the key.
void apply_config_file(CLI::App& command, const std::string& path);

}  // namespace adjoin::cli
