#pragma once

#include <CLI/App.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::cli {

/// The name as a user types it: "adjoin bench step".
std::string full_name(const CLI::App& command);

/// The names of the options of a command, "--batch", and of its subcommands.
std::vector<std::string> option_names(const CLI::App& command);
std::vector<std::string> command_names(const CLI::App& command);

/// " (did you mean --batch?)" if a known name differs from `typed` by a few letters, or begins with it; else "".
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known);

}  // namespace adjoin::cli
