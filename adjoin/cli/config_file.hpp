#pragma once

#include <CLI/App.hpp>
#include <string>

#include "adjoin/cli/commands.hpp"

namespace adjoin::cli {

/// Sets the options of `command` that were not on the command line to the values of a TOML file, or of a run's config.json,
/// except for the run's output folder. Returns which options these are, and where the file has each.
/// Throws: InvalidArgument, with the file, the line and the key.
GivenByFile apply_config_file(CLI::App& command, const std::string& path);

}  // namespace adjoin::cli
