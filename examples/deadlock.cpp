// Workers that wait for each other: the launch ends at once and says who waits for whom.

#include <vector>

#include "adjoin/base/error.hpp"
#include "examples/support/example.hpp"

using namespace adjoin;

void wait_for_each_other(const Communicator& world) {
  std::vector<float> x(1024);
  if (world.rank() == 0)
    world.all_reduce(buffer(x));
  else
    world.recv(buffer(x), /*from=*/0);
}

int main(int argc, char** argv) {
  const example::About about{"Workers that wait for each other. Under mpirun the job ends with exit code 1.", 2};
  return example::run_with(argc, argv, about, [](const example::Options& options, example::Report& report) {
    require(options.ranks >= 2, "--ranks is 1: a worker alone waits for nobody");
    try {
      launch(options.ranks, wait_for_each_other);
    } catch (const CommunicationError& error) {
      report.line("%s", error.what());
      report.value("error", std::string(error.what()));
      return;
    }
    throw InternalError("the deadlock was not reported");
  });
}
