#include "adjoin/lab/comparison.hpp"

#include <algorithm>

namespace adjoin::lab {

Contest compare(Collective collective, int ranks, int64_t bytes, int64_t chunk, const algorithm::Network& network) {
  Contest contest{.ranks = ranks, .bytes = bytes, .contenders = {}};
  // Elements are bytes, and all blocks are equal, as the formulas require.
  const std::vector<int64_t> blocks(static_cast<size_t>(ranks), (bytes + ranks - 1) / ranks);
  algorithm::Request request = algorithm::request_of(collective, /*root=*/0, bytes, blocks);
  const int64_t best = algorithm::chunk_for(ranks, bytes, 1, network);
  for (const std::string_view algorithm : algorithm::names_of(collective)) {
    const bool is_pipeline = algorithm::is_pipeline(collective, algorithm);
    request.chunk = !is_pipeline ? 0 : chunk > 0 ? chunk : best < bytes ? best : 0;
    contest.contenders.push_back({.algorithm = algorithm,
                                  .chunk = request.chunk,
                                  .seconds = algorithm::seconds_of(request, algorithm, 1, network)});
  }
  std::stable_sort(contest.contenders.begin(), contest.contenders.end(),
                   [](const Contender& a, const Contender& b) { return a.seconds < b.seconds; });
  return contest;
}

}  // namespace adjoin::lab
