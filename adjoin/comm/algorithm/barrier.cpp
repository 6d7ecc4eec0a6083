#include "adjoin/comm/algorithm/programs.hpp"

namespace adjoin::algorithm {

Program dissemination_barrier(const Request& q, int rank) {
  Program program;
  for (int distance = 1; distance < q.size; distance *= 2)
    add_step(program, {send_to((rank + distance) % q.size, {}), receive_from((rank - distance + q.size) % q.size, {})});
  return program;
}

}  // namespace adjoin::algorithm
