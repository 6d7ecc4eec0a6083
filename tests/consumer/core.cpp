// What a project without LibTorch gets: workers that sum what they hold.

#include <cstdio>
#include <stdexcept>
#include <vector>

#include "adjoin/comm/launch.hpp"

int main() {
  adjoin::launch_threads(2, [](const adjoin::Communicator& world) {
    std::vector<double> values = {1.0 + world.rank(), 10.0};
    world.all_reduce(adjoin::buffer(values));
    if (values != std::vector<double>{3.0, 20.0}) throw std::runtime_error("the sum over 2 workers is not 3 and 20");
  });
  std::puts("2 workers have summed");
}
