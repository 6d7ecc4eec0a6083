// build/release/bench/bench_layouts attention|layers|matmul|moves, with the options that --help lists

#include "adjoin/cli/run_program.hpp"
#include "bench/layouts/command.hpp"

int main(int argc, char** argv) {
  return adjoin::cli::run_program(argc, argv, adjoin::bench::add_benches);
}
