#include "adjoin/comm/algorithm/barrier.hpp"

namespace adjoin::algorithm {

Program dissemination_barrier(int rank, int size) {
  Program program;
  for (int distance = 1; distance < size; distance *= 2) {
    const int to = (rank + distance) % size, from = (rank - distance + size) % size;
    program.steps.push_back({.transfers = {send_to(to, {}), receive_from(from, {})}, .moves = {}});
  }
  return program;
}

}  // namespace adjoin::algorithm
