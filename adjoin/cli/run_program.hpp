#pragma once

namespace adjoin::cli {

/// All of the program but main: carries out a command line, says on standard error why it failed, and returns the exit
/// code.
int run_program(int argc, char** argv);

}  // namespace adjoin::cli
