// Steps, and the time on a network, by formula. Names are the catalogue's.

#include <algorithm>
#include <bit>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/blocks.hpp"
#include "adjoin/comm/algorithm/broadcast.hpp"
#include "adjoin/comm/algorithm/cost.hpp"
#include "adjoin/comm/algorithm/fold.hpp"

namespace adjoin::algorithm {

namespace {

/// What the formulas are made of, for one request.
struct Terms {
  const Request& q;
  int64_t bytes_per_element = 1;
  Network network = {};

  int64_t size = q.size, others = q.size - 1;
  int64_t log_up = std::bit_width(static_cast<unsigned>(q.size - 1));    // ceil(log2 P)
  int64_t log_down = std::bit_width(static_cast<unsigned>(q.size)) - 1;  // floor(log2 P)
  bool has_extra = !std::has_single_bit(static_cast<unsigned>(q.size));  // P is no power of two
  int64_t fold_steps = has_extra ? 2 : 0;

  /// The time of one message.
  double t(int64_t elements) const {
    return network.alpha + network.beta * static_cast<double>(elements * bytes_per_element);
  }
  int64_t largest() const { return *std::max_element(q.counts.begin(), q.counts.end()); }

  /// The count of every block, of which all must be equal.
  int64_t equal() const {
    for (const int64_t count : q.counts)
      if (count != q.counts[0])
        throw InvalidArgument("the formula for the time of " + std::string(name(q.collective)) + " on " +
                              std::to_string(size) + " ranks: expected equal counts, got " +
                              std::to_string(q.counts[0]) + " and " + std::to_string(count));
    return q.counts[0];
  }
};

int64_t one(const Terms&) {
  return 1;
}
int64_t two(const Terms&) {
  return 2;
}
int64_t others(const Terms& p) {
  return p.others;
}
int64_t log_up(const Terms& p) {
  return p.log_up;
}
int64_t log_with_fold(const Terms& p) {
  return p.log_down + p.fold_steps;
}
int64_t two_logs_up(const Terms& p) {
  return 2 * p.log_up;
}
int64_t two_logs_with_fold(const Terms& p) {
  return 2 * p.log_down + p.fold_steps;
}
int64_t two_rounds(const Terms& p) {
  return 2 * p.others;
}
int64_t pipeline(const Terms& p) {
  return p.others - 1 + pieces_of(p.q.count, p.q.chunk);
}

double of_messages_one_by_one(const Terms& p) {
  return static_cast<double>(p.others) * p.t(p.q.count);
}
double of_tree(const Terms& p) {
  return static_cast<double>(p.log_up) * p.t(p.q.count);
}
/// The last piece, which may be shorter, comes to the last rank behind P + K - 3 whole ones.
double of_pipeline(const Terms& p) {
  const int64_t pieces = pieces_of(p.q.count, p.q.chunk);
  if (pieces == 1) return of_messages_one_by_one(p);
  return static_cast<double>(p.size + pieces - 3) * p.t(p.q.chunk) + p.t(p.q.count - (pieces - 1) * p.q.chunk);
}
double of_two_naive_ones(const Terms& p) {
  return 2 * of_messages_one_by_one(p);
}
double of_butterfly(const Terms& p) {
  return static_cast<double>(log_with_fold(p)) * p.t(p.q.count);
}
/// The largest block goes all the way round, and none is slower.
double of_ring_twice(const Terms& p) {
  return static_cast<double>(2 * p.others) * p.t((p.q.count + p.size - 1) / p.size);
}
double of_ring(const Terms& p) {
  return static_cast<double>(p.others) * p.t(p.largest());
}

/// Recursive halving or doubling of blocks whose first ones are the largest: those of participant 0 decide.
double of_recursion(const Terms& p, const Blocks& blocks) {
  double seconds = 0;
  for (int distance = 1; distance < blocks.size(); distance *= 2) seconds += p.t(blocks.count(0, distance));
  return seconds;
}
double of_rabenseifner(const Terms& p) {
  const Blocks blocks(balanced_counts(p.q.count, Fold(p.q.size).participants()));
  return 2 * of_recursion(p, blocks) + static_cast<double>(p.fold_steps) * p.t(p.q.count);
}
/// Doubling and halving move the same blocks: one that is handed over in one direction, all of them in the other.
double of_recursion_with_fold(const Terms& p) {
  const int64_t count = p.equal();
  const double fold = p.has_extra ? p.t(count) + p.t(p.size * count) : 0;
  return fold + of_recursion(p, Blocks(Fold(p.q.size).merged(p.q.counts)));
}

double of_blocks_one_by_one(const Terms& p) {
  double seconds = 0;
  for (int rank = 0; rank < p.q.size; ++rank)
    if (rank != p.q.root) seconds += p.t(p.q.counts[static_cast<size_t>(rank)]);
  return seconds;
}
/// The root, or every rank in Bruck's all-gather, moves 1, 2, 4 … blocks, the last time those that are left.
double of_doubling_blocks(const Terms& p) {
  const int64_t count = p.equal();
  double seconds = 0;
  for (int64_t have = 1; have < p.size; have *= 2) seconds += p.t(std::min(have, p.size - have) * count);
  return seconds;
}
double of_gather_and_broadcast(const Terms& p) {
  return of_doubling_blocks(p) + static_cast<double>(p.log_up) * p.t(total_of(p.q.counts));
}

double of_pairs(const Terms& p) {
  return static_cast<double>(p.others) * p.t(p.equal());
}
double of_bruck(const Terms& p) {
  const int64_t count = p.equal();
  double seconds = 0;
  for (int bit = 1; bit < p.q.size; bit *= 2) {
    int64_t blocks = 0;
    for (int distance = bit; distance < p.q.size; ++distance) blocks += (distance & bit) != 0;
    seconds += p.t(blocks * count);
  }
  return seconds;
}
double of_dissemination(const Terms& p) {
  return static_cast<double>(p.log_up) * p.t(0);
}

struct Formula {
  Collective collective;
  std::string_view algorithm;
  int64_t (*steps)(const Terms&);
  double (*seconds)(const Terms&);
};

constexpr Formula kFormulas[] = {
    {Collective::barrier, "dissemination", log_up, of_dissemination},
    {Collective::broadcast, "naive", one, of_messages_one_by_one},
    {Collective::broadcast, "tree", log_up, of_tree},
    {Collective::broadcast, "ring", pipeline, of_pipeline},
    {Collective::reduce, "naive", one, of_messages_one_by_one},
    {Collective::reduce, "tree", log_up, of_tree},
    {Collective::all_reduce, "naive", two, of_two_naive_ones},
    {Collective::all_reduce, "butterfly", log_with_fold, of_butterfly},
    {Collective::all_reduce, "ring", two_rounds, of_ring_twice},
    {Collective::all_reduce, "rabenseifner", two_logs_with_fold, of_rabenseifner},
    {Collective::gather, "naive", one, of_blocks_one_by_one},
    {Collective::gather, "tree", log_up, of_doubling_blocks},
    {Collective::scatter, "naive", one, of_blocks_one_by_one},
    {Collective::scatter, "tree", log_up, of_doubling_blocks},
    {Collective::all_gather, "naive", one, of_ring},  // P - 1 of the largest block, one by one, take as long
    {Collective::all_gather, "tree", two_logs_up, of_gather_and_broadcast},
    {Collective::all_gather, "ring", others, of_ring},
    {Collective::all_gather, "doubling", log_with_fold, of_recursion_with_fold},
    {Collective::all_gather, "bruck", log_up, of_doubling_blocks},
    {Collective::reduce_scatter, "ring", others, of_ring},
    {Collective::reduce_scatter, "halving", log_with_fold, of_recursion_with_fold},
    {Collective::all_to_all, "pairwise", others, of_pairs},
    {Collective::all_to_all, "bruck", log_up, of_bruck},
};

const Formula& formula_of(const Request& request, std::string_view algorithm) {
  check_request(request, algorithm);
  return *std::find_if(std::begin(kFormulas), std::end(kFormulas), [&](const Formula& formula) {
    return formula.collective == request.collective && formula.algorithm == algorithm;
  });
}

}  // namespace

int64_t steps_of(const Request& request, std::string_view algorithm) {
  const Formula& formula = formula_of(request, algorithm);
  return request.size == 1 ? 0 : formula.steps({.q = request});
}

double seconds_of(const Request& request, std::string_view algorithm, int64_t bytes_per_element,
                  const Network& network) {
  const Formula& formula = formula_of(request, algorithm);
  if (request.size == 1) return 0;
  return formula.seconds({.q = request, .bytes_per_element = bytes_per_element, .network = network});
}

}  // namespace adjoin::algorithm
