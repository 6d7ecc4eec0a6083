#pragma once

namespace adjoin::cli {

/// The whole program except main: runs a command line, prints on standard error why it failed, and returns the exit code.
int run_program(int argc, char** argv);

}  // namespace adjoin::cli
