#pragma once

#include "adjoin/cli/commands.hpp"

namespace adjoin::cli {

/// The whole program except main: runs a command line, prints on standard error why it failed, and returns the exit code.
/// `add` adds the program's commands.
int run_program(int argc, char** argv, void (*add)(Program&) = add_commands);

}  // namespace adjoin::cli
