#include "adjoin/comm/lab/comparison.hpp"

#include <algorithm>
#include <cmath>

namespace adjoin::lab {

namespace {

/// Elements are bytes, and all blocks equal.
algorithm::Request request_of(Collective collective, int ranks, int64_t bytes) {
  const auto size = static_cast<size_t>(ranks);
  const int64_t block = (bytes + ranks - 1) / ranks;
  algorithm::Request request{.collective = collective, .size = ranks};
  switch (collective) {
    case Collective::barrier:
      break;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_reduce:
      request.count = bytes;
      break;
    case Collective::all_to_all:
      request.counts.assign(size * size, block);
      break;
    default:
      request.counts.assign(size, block);
  }
  return request;
}

}  // namespace

int64_t best_chunk(int ranks, int64_t bytes, const algorithm::Network& network) {
  if (ranks <= 2 || bytes == 0 || network.beta == 0) return 0;
  if (network.alpha == 0) return 1;
  const double pieces = std::sqrt((ranks - 2) * network.beta * static_cast<double>(bytes) / network.alpha);
  if (pieces <= 1) return 0;
  return std::max<int64_t>(1, std::llround(static_cast<double>(bytes) / pieces));
}

Contest compare(Collective collective, int ranks, int64_t bytes, int64_t chunk, const algorithm::Network& network) {
  Contest contest{.ranks = ranks, .bytes = bytes, .contenders = {}};
  algorithm::Request request = request_of(collective, ranks, bytes);
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
