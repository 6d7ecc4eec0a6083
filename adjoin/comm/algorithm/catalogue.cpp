#include "adjoin/comm/algorithm/catalogue.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/algorithm/patterns.hpp"
#include "adjoin/comm/algorithm/programs.hpp"

namespace adjoin::algorithm {

namespace {

/// The terms of the formulas, for one request of at least two ranks.
struct Terms {
  const Request& q;
  int64_t bytes_per_element = 1;
  Network network = {};

  // Messages or steps.
  int64_t one = 1, two = 2, others = q.size - 1, two_rounds = 2 * others;
  int64_t log_up = std::bit_width(static_cast<unsigned>(q.size - 1));    // ceil(log2 P)
  int64_t log_down = std::bit_width(static_cast<unsigned>(q.size)) - 1;  // floor(log2 P)
  int64_t fold_steps = log_up == log_down ? 0 : 2;                       // where P is not a power of two
  int64_t log_with_fold = log_down + fold_steps, two_logs_with_fold = log_with_fold + log_down;
  int64_t two_logs_up = 2 * log_up, pipeline = others - 1 + q.pieces();

  // Elements.
  int64_t none = 0, count = q.count, share = (q.count + others) / q.size;
  int64_t largest = q.counts.empty() ? 0 : *std::max_element(q.counts.begin(), q.counts.end());

  /// The count of a block, where all counts must be equal.
  int64_t equal() const {
    for (const int64_t other : q.counts)
      if (other != q.counts[0])
        throw InvalidArgument("the formula for the time of " + std::string(name(q.collective)) + " on " +
                              std::to_string(q.size) + " ranks: expected equal counts, got " +
                              std::to_string(q.counts[0]) + " and " + std::to_string(other));
    return q.counts[0];
  }

  /// The time of `messages` consecutive messages.
  double time(int64_t messages, int64_t elements) const {
    return static_cast<double>(messages) *
           (network.alpha + network.beta * static_cast<double>(elements * bytes_per_element));
  }
};

template <int64_t Terms::*messages, int64_t Terms::*elements>
double each(const Terms& p) {
  return p.time(p.*messages, p.*elements);
}

/// The last piece, which may be shorter, reaches the last rank after P + K - 3 whole ones.
double pieces_in_turn(const Terms& p) {
  const int64_t whole = p.q.pieces() - 1;
  return whole == 0 ? p.time(p.others, p.count)
                    : p.time(p.pipeline - 1, p.q.chunk) + p.time(1, p.count - whole * p.q.chunk);
}

/// Recursive halving or doubling where the first blocks are the largest: those of participant 0 determine the time.
double recursion(const Terms& p, const Blocks& blocks) {
  double seconds = 0;
  for (int distance = 1; distance < blocks.size(); distance *= 2) seconds += p.time(1, blocks.count(0, distance));
  return seconds;
}
double two_recursions(const Terms& p) {
  const Blocks blocks(balanced_counts(p.count, Fold(p.q.size).participants()));
  return 2 * recursion(p, blocks) + p.time(p.fold_steps, p.count);
}
/// Doubling and halving move the same blocks: in one direction one block is handed over, in the other all blocks.
double recursion_of_blocks(const Terms& p) {
  const int64_t count = p.equal();
  const double fold = p.fold_steps > 0 ? p.time(1, count) + p.time(1, p.q.size * count) : 0;
  return fold + recursion(p, Blocks(Fold(p.q.size).merged(p.q.counts)));
}

double blocks_to_or_from_root(const Terms& p) {
  const int64_t elements = total_of(p.q.counts) - p.q.counts[static_cast<size_t>(p.q.root)];
  return p.time(1, elements) + p.time(p.others - 1, 0);
}
/// The root, or every rank in Bruck's all-gather, moves 1, 2, 4 … blocks, and in the last step those that remain.
double doubling_blocks(const Terms& p) {
  const int64_t count = p.equal();
  double seconds = 0;
  for (int64_t have = 1; have < p.q.size; have *= 2) seconds += p.time(1, std::min(have, p.q.size - have) * count);
  return seconds;
}
double gather_and_broadcast(const Terms& p) {
  return doubling_blocks(p) + p.time(p.log_up, total_of(p.q.counts));
}

double equal_blocks(const Terms& p) {
  return p.time(p.others, p.equal());
}
double blocks_by_bits(const Terms& p) {
  const int64_t count = p.equal();
  double seconds = 0;
  for (int bit = 1; bit < p.q.size; bit *= 2) {
    int64_t blocks = 0;
    for (int distance = bit; distance < p.q.size; ++distance) blocks += (distance & bit) != 0;
    seconds += p.time(1, blocks * count);
  }
  return seconds;
}

struct Algorithm {
  Collective collective;
  std::string_view name;
  Program (*program)(const Request&, int rank);
  int64_t Terms::*steps;
  double (*seconds)(const Terms&);
  bool is_pipeline = false;
};

using enum Collective;
using T = Terms;

/// For each collective, algorithms that are preferred at equal speed come first: they need less scratch or send fewer messages
/// at once.
constexpr Algorithm kAlgorithms[] = {
    {barrier, "dissemination", dissemination_barrier, &T::log_up, each<&T::log_up, &T::none>},

    {broadcast, "naive", naive_broadcast, &T::one, each<&T::others, &T::count>},
    {broadcast, "tree", tree_broadcast, &T::log_up, each<&T::log_up, &T::count>},
    {broadcast, "ring", ring_broadcast, &T::pipeline, pieces_in_turn, /*is_pipeline=*/true},

    {reduce, "naive", naive_reduce, &T::one, each<&T::others, &T::count>},
    {reduce, "tree", tree_reduce, &T::log_up, each<&T::log_up, &T::count>},

    {all_reduce, "naive", naive_all_reduce, &T::two, each<&T::two_rounds, &T::count>},
    {all_reduce, "butterfly", butterfly_all_reduce, &T::log_with_fold, each<&T::log_with_fold, &T::count>},
    // The largest block goes all the way around, and no other block is slower.
    {all_reduce, "ring", ring_all_reduce, &T::two_rounds, each<&T::two_rounds, &T::share>},
    {all_reduce, "rabenseifner", rabenseifner_all_reduce, &T::two_logs_with_fold, two_recursions},

    {gather, "naive", naive_gather, &T::one, blocks_to_or_from_root},
    {gather, "tree", tree_gather, &T::log_up, doubling_blocks},

    {scatter, "naive", naive_scatter, &T::one, blocks_to_or_from_root},
    {scatter, "tree", tree_scatter, &T::log_up, doubling_blocks},

    {all_gather, "ring", ring_all_gather, &T::others, each<&T::others, &T::largest>},
    {all_gather, "naive", naive_all_gather, &T::one, each<&T::others, &T::largest>},  // takes as long as a ring
    {all_gather, "tree", tree_all_gather, &T::two_logs_up, gather_and_broadcast},
    {all_gather, "doubling", doubling_all_gather, &T::log_with_fold, recursion_of_blocks},
    {all_gather, "bruck", bruck_all_gather, &T::log_up, doubling_blocks},

    {reduce_scatter, "ring", ring_reduce_scatter, &T::others, each<&T::others, &T::largest>},
    {reduce_scatter, "halving", halving_reduce_scatter, &T::log_with_fold, recursion_of_blocks},

    {all_to_all, "pairwise", pairwise_all_to_all, &T::others, equal_blocks},
    {all_to_all, "bruck", bruck_all_to_all, &T::log_up, blocks_by_bits},
};

const Algorithm* find(Collective collective, std::string_view name) {
  const auto found = std::find_if(std::begin(kAlgorithms), std::end(kAlgorithms),
                                  [&](const Algorithm& a) { return a.collective == collective && a.name == name; });
  return found == std::end(kAlgorithms) ? nullptr : found;
}

const Algorithm& checked(const Request& request, std::string_view algorithm, int rank = 0) {
  check(request, rank);
  if (const Algorithm* found = find(request.collective, algorithm)) return *found;
  refuse(request, "one of the algorithms " + joined(names_of(request.collective)),
         std::string("'").append(algorithm).append("'"));
}

}  // namespace

std::vector<std::string_view> names_of(Collective collective) {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : kAlgorithms)
    if (algorithm.collective == collective) names.push_back(algorithm.name);
  return names;
}

std::string_view known_name(Collective collective, std::string_view algorithm) {
  const Algorithm* found = find(collective, algorithm);
  return found ? found->name : std::string_view();
}

bool is_pipeline(Collective collective, std::string_view algorithm) {
  const Algorithm* found = find(collective, algorithm);
  return found && found->is_pipeline;
}

Program program_of(const Request& request, std::string_view algorithm, int rank) {
  return checked(request, algorithm, rank).program(request, rank);
}

int64_t steps_of(const Request& request, std::string_view algorithm) {
  const Algorithm& found = checked(request, algorithm);
  return request.size == 1 ? 0 : Terms{.q = request}.*found.steps;
}

double seconds_of(const Request& request, std::string_view algorithm, int64_t bytes_per_element,
                  const Network& network) {
  const Algorithm& found = checked(request, algorithm);
  if (request.size == 1) return 0;
  return found.seconds({.q = request, .bytes_per_element = bytes_per_element, .network = network});
}

std::string_view choose(Collective collective, int size, int64_t bytes) {
  const std::vector<std::string_view> names = names_of(collective);
  if (size == 1 || collective == Collective::all_to_all) return names[0];  // no rank knows the bytes of an all_to_all
  const std::vector<int64_t> blocks(static_cast<size_t>(size), bytes / size + (bytes % size > 0));
  Request request = request_of(collective, /*root=*/0, bytes, blocks);
  request.chunk = chunk_for(size, bytes, 1);
  const Terms terms{.q = request, .network = kUsualNetwork};
  const auto seconds = [&](std::string_view name) { return find(collective, name)->seconds(terms); };
  const double most = 1.01 * seconds(std::ranges::min(names, {}, seconds));
  return *std::ranges::find_if(names, [&](std::string_view name) { return seconds(name) <= most; });
}

/// The time (P - 2 + n / c) (alpha + beta c) is smallest at c = sqrt(n alpha / (beta (P - 2))).
int64_t chunk_for(int size, int64_t count, int64_t bytes_per_element, const Network& network) {
  if (size <= 2 || count == 0 || network.beta == 0) return count;
  const double bytes = static_cast<double>(count * bytes_per_element);
  const double best =
      std::sqrt(bytes * (network.alpha / network.beta) / (size - 2)) / static_cast<double>(bytes_per_element);
  return best < static_cast<double>(count) ? std::max(static_cast<int64_t>(best), int64_t{1}) : count;
}

}  // namespace adjoin::algorithm
