#pragma once

#include <CLI/App.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::cli {

/// As it is typed: "adjoin bench matmul".
std::string full_name(const CLI::App& command);

/// The names of the options of a command, "--batch", and of its subcommands.
std::vector<std::string> option_names(const CLI::App& command);
std::vector<std::string> command_names(const CLI::App& command);

/// " (did you mean --batch?)" where a known name is near what was typed: but for a few letters, or its beginning; else "".
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known);

}  // namespace adjoin::cli
