#pragma once

#include <CLI/App.hpp>
#include <string>

namespace adjoin::cli {

/// Gives the options of `command` that were not on the command line the values of a TOML file, or of a run's config.json,
/// but for where the run wrote.
/// Throws: InvalidArgument that names the file, the line, and the key.
void apply_config_file(CLI::App& command, const std::string& path);

}  // namespace adjoin::cli
