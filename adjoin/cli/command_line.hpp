#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "adjoin/cli/commands.hpp"

namespace adjoin::cli {

/// The words that follow a command, in two parts.
struct Words {
  std::vector<std::string> options, texts;
};

/// Tells the texts among a command's words from its options: a word is a text unless it is exactly the name of an option
/// (with "=VALUE" behind it where the option takes one) or such an option's value; after "--" every word is.
Words separate_texts(const CLI::App& command, const std::vector<std::string>& words);

/// Reads the command line, without the program's name; the texts of a command that takes some go to `program.texts`.
/// Throws: as CLI::App::parse does; InvalidArgument for a number that is none, an option in the place of a value,
///         or words that nothing takes.
void parse(Program& program, std::vector<std::string> words);

}  // namespace adjoin::cli
