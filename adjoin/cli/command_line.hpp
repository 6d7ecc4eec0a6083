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

/// Tells the texts among a command's words from its options: a word is a text unless it is the name of an option (with
/// "=VALUE" behind it where the option takes one) or such an option's value; after "--" every word is.
/// Throws: InvalidArgument for another word that begins with "--", which is a mistyped option
Words separate_texts(const CLI::App& command, const std::vector<std::string>& words);

/// Reads the command line, without the program's name; the texts of a command that takes some go to `program.texts`.
/// Throws: as CLI::App::parse does; InvalidArgument for a number that is none, a value that is missing or given twice,
///         words that nothing takes, and where there is no command.
void parse(Program& program, std::vector<std::string> words);

}  // namespace adjoin::cli
