#include "adjoin/comm/algorithm/blocks.hpp"

#include <numeric>

namespace adjoin::algorithm {

Blocks::Blocks(std::span<const int64_t> counts) : starts_(counts.size() + 1) {
  std::partial_sum(counts.begin(), counts.end(), starts_.begin() + 1);
}

int64_t Blocks::count_around(int first, int n) const {
  const int begin = first % size(), end = begin + n;
  return end <= size() ? count(begin, n) : count(begin, size() - begin) + count(0, end - size());
}

}  // namespace adjoin::algorithm
