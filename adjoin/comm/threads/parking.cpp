#include "adjoin/comm/threads/parking.hpp"

#include <sched.h>

namespace adjoin::threads {

namespace {

/// The cores that this process may use, which a container or mpirun's binding makes fewer than the machine has.
int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

Patience Patience::for_ranks(int ranks) {
  // Ranks that come together meet within the spins, of 2 us. Longer ones would be lost whenever two ranks share a core
  // because another program has one: each meeting then lasts as long as a waiter spins.
  if (ranks <= usable_cores()) return {.spins = 50, .yields = 200};
  return {.spins = 0, .yields = 200};
}

}  // namespace adjoin::threads
