#include "adjoin/comm/algorithm/rule.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace adjoin::algorithm {

namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;

using enum Collective;
constexpr auto any = Rule::Ranks::any, two = Rule::Ranks::two, power_of_two = Rule::Ranks::power_of_two;

// The limits are where the formulas of seconds_of cross on the usual network, rounded; a test holds the choice against
// the best one.
constexpr Rule kRules[] = {
    // collective, ranks, bytes in all, bytes a rank, algorithm
    {barrier, any, kAnyBytes, kAnyBytes, "dissemination"},

    {broadcast, two, kAnyBytes, kAnyBytes, "tree"},
    {broadcast, any, 64 * kKiB, kAnyBytes, "tree"},
    {broadcast, any, kAnyBytes, 4 * kKiB, "tree"},
    {broadcast, any, kAnyBytes, kAnyBytes, "ring"},

    {reduce, any, kAnyBytes, kAnyBytes, "tree"},

    {all_reduce, two, kAnyBytes, kAnyBytes, "butterfly"},
    {all_reduce, any, 16 * kKiB, kAnyBytes, "butterfly"},
    {all_reduce, power_of_two, kAnyBytes, kAnyBytes, "rabenseifner"},
    {all_reduce, any, kAnyBytes, 5 * kKiB, "rabenseifner"},
    {all_reduce, any, kAnyBytes, kAnyBytes, "ring"},

    {gather, any, 4 * kMiB, kAnyBytes, "tree"},
    {gather, any, kAnyBytes, kAnyBytes, "naive"},  // no scratch

    {scatter, any, 4 * kMiB, kAnyBytes, "tree"},
    {scatter, any, kAnyBytes, kAnyBytes, "naive"},

    {all_gather, power_of_two, kAnyBytes, kAnyBytes, "doubling"},
    {all_gather, any, 4 * kMiB, kAnyBytes, "bruck"},
    {all_gather, any, kAnyBytes, kAnyBytes, "ring"},  // no scratch

    {reduce_scatter, power_of_two, kAnyBytes, kAnyBytes, "halving"},
    {reduce_scatter, any, kAnyBytes, 4 * kKiB, "halving"},
    {reduce_scatter, any, kAnyBytes, kAnyBytes, "ring"},

    {all_to_all, any, kAnyBytes, kAnyBytes, "pairwise"},
};

bool fits(Rule::Ranks ranks, int size) {
  return ranks == any || (ranks == two && size <= 2) ||
         (ranks == power_of_two && std::has_single_bit(static_cast<unsigned>(size)));
}

}  // namespace

std::span<const Rule> rules() {
  return kRules;
}

std::string_view choose(Collective collective, int size, int64_t bytes) {
  const auto fitting = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& rule) {
    return rule.collective == collective && fits(rule.ranks, size) && bytes <= rule.bytes &&
           (rule.bytes_a_rank == kAnyBytes || bytes <= rule.bytes_a_rank * size);
  });
  return fitting->algorithm;
}

/// The time (P - 2 + n / c) (alpha + beta c) is least at c = sqrt(n alpha / (beta (P - 2))).
int64_t chunk_for(int size, int64_t count, int64_t bytes_per_element, const Network& network) {
  if (size <= 2 || count == 0 || network.beta == 0) return count;
  const double bytes = static_cast<double>(count * bytes_per_element);
  const double best =
      std::sqrt(bytes * (network.alpha / network.beta) / (size - 2)) / static_cast<double>(bytes_per_element);
  return best < static_cast<double>(count) ? std::max(static_cast<int64_t>(best), int64_t{1}) : count;
}

}  // namespace adjoin::algorithm
