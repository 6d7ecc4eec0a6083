#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "adjoin/cli/commands.hpp"

namespace adjoin::cli {

/// The words after a command, in two parts.
struct Words {
  std::vector<std::string> options, texts;
};

/// Separates the texts among a command's words from its options. A word is a text unless it is the name of an option (with
/// "=VALUE" added if the option takes a value) or the value of such an option; after "--" every word is a text.
/// Throws: InvalidArgument for another word that begins with "--", as that is a mistyped option
Words separate_texts(const CLI::App& command, const std::vector<std::string>& words);

/// Reads the command line, without the program's name; if a command takes texts, they go to `program.texts`.
/// Throws: as CLI::App::parse does; InvalidArgument for a value that is not a number where one is expected, for a value that is
///         missing or given twice, for words that no option or command takes, and where there is no command.
void parse(Program& program, std::vector<std::string> words);

/// Does what was parsed. An error that begins with the value of an option, as in "/nowhere: there is no such folder", gets the
/// name of the option before it; one about an option that a file gave, as in "--lr is nan", gets the file and its line.
void act(const Program& program);

}  // namespace adjoin::cli
