// Two workers that wait for each other: the launch ends at once and says who waits for whom.

#include <cstdio>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"

using namespace adjoin;

void wait_for_each_other() {
  launch_threads(2, [](const Communicator& world) {
    std::vector<float> x(1024);
    if (world.rank() == 0)
      world.all_reduce(buffer(x));
    else
      world.recv(buffer(x), /*from=*/0);
  });
}

int main() {
  try {
    wait_for_each_other();
  } catch (const CommunicationError& error) {
    std::printf("%s\n", error.what());
    return 0;
  }
  return 1;
}
