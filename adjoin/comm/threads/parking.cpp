#include "adjoin/comm/threads/parking.hpp"

#include "adjoin/base/cores.hpp"

namespace adjoin::threads {

Patience Patience::for_ranks(int ranks) {
  // Ranks that come together meet within the spins, of 2 us. Longer ones would be lost whenever two ranks share a core
  // because another program has one: each meeting then lasts as long as a waiter spins.
  static const int cores = usable_cores();
  if (ranks <= cores) return {.spins = 50, .yields = 200};
  return {.spins = 0, .yields = 200};
}

}  // namespace adjoin::threads
