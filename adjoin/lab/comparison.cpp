#include "adjoin/lab/comparison.hpp"

#include <algorithm>
#include <cmath>

namespace adjoin::lab {

int64_t best_chunk(int ranks, int64_t bytes, const algorithm::Network& network) {
  if (ranks <= 2 || bytes == 0 || network.beta == 0) return 0;
  if (network.alpha == 0) return 1;
  const double pieces = std::sqrt((ranks - 2) * network.beta * static_cast<double>(bytes) / network.alpha);
  if (pieces <= 1) return 0;
  return std::max<int64_t>(1, std::llround(static_cast<double>(bytes) / pieces));
}

Contest compare(Collective collective, int ranks, int64_t bytes, int64_t chunk, const algorithm::Network& network) {
  Contest contest{.ranks = ranks, .bytes = bytes, .contenders = {}};
  // Elements are bytes, and all blocks equal, as the formulas want them.
  const std::vector<int64_t> blocks(static_cast<size_t>(ranks), (bytes + ranks - 1) / ranks);
  algorithm::Request request = algorithm::request_of(collective, /*root=*/0, bytes, blocks);
  for (const std::string_view algorithm : algorithm::names_of(collective)) {
    request.chunk = !algorithm::is_pipeline(collective, algorithm) ? 0
                    : chunk > 0                                    ? chunk
                                                                   : best_chunk(ranks, bytes, network);
    contest.contenders.push_back({.algorithm = algorithm,
                                  .chunk = request.chunk,
                                  .seconds = algorithm::seconds_of(request, algorithm, 1, network)});
  }
  std::stable_sort(contest.contenders.begin(), contest.contenders.end(),
                   [](const Contender& a, const Contender& b) { return a.seconds < b.seconds; });
  return contest;
}

}  // namespace adjoin::lab
