#include "adjoin/cli/run_program.hpp"

int main(int argc, char** argv) {
  return adjoin::cli::run_program(argc, argv);
}
