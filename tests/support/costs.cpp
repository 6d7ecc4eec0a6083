// Names and order are the catalogue's.

#include "tests/support/costs.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "adjoin/comm/algorithm/patterns.hpp"

namespace adjoin::testing {

using algorithm::balanced_counts;
using algorithm::Blocks;
using algorithm::Fold;
using algorithm::Request;
using algorithm::total_of;

namespace {

Cost sends(int64_t messages, int64_t elements) {
  return {.messages_sent = messages, .elements_sent = elements};
}
Cost receives(int64_t messages, int64_t elements) {
  return {.messages_received = messages, .elements_received = elements};
}
Cost operator+(const Cost& a, const Cost& b) {
  return {a.messages_sent + b.messages_sent, a.messages_received + b.messages_received,
          a.elements_sent + b.elements_sent, a.elements_received + b.elements_received};
}
/// The cost of what runs backwards.
Cost reverse(const Cost& cost) {
  return {cost.messages_received, cost.messages_sent, cost.elements_received, cost.elements_sent};
}

int bits_of(int n) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(n)));
}
/// ceil(log2 n).
int log2_up(int n) {
  return bits_of(n - 1);
}

// Trees.

/// In a tree that grows by doubling, rank r of those that have the data passes it to r + 2^k for all 2^k > r.
int children_while_growing(int size, int me) {
  return std::max(0, log2_up(size - me) - bits_of(me));
}
/// In a tree whose subtrees are consecutive ranks, the children of r are r + 2^k for all 2^k below r's lowest bit.
int children_in_order(int size, int me) {
  const int below = log2_up(size - me);
  return me == 0 ? below : std::min(below, std::countr_zero(static_cast<unsigned>(me)));
}
int members_of_subtree(int size, int me) {
  return me == 0 ? size : std::min(me & -me, size - me);
}

Cost naive_broadcast_cost(const Request& q, int rank) {
  return rank == q.root ? sends(q.size - 1, (q.size - 1) * q.count) : receives(1, q.count);
}
Cost tree_broadcast_cost(const Request& q, int rank) {
  const int me = q.shifted(rank), children = children_while_growing(q.size, me);
  return sends(children, children * q.count) + (me == 0 ? Cost{} : receives(1, q.count));
}
Cost ring_broadcast_cost(const Request& q, int rank) {
  const int me = q.shifted(rank);
  const int64_t pieces = q.pieces();
  return (me == q.size - 1 ? Cost{} : sends(pieces, q.count)) + (me == 0 ? Cost{} : receives(pieces, q.count));
}

Cost naive_reduce_cost(const Request& q, int rank) {
  return reverse(naive_broadcast_cost(q, rank));
}
Cost tree_reduce_cost(const Request& q, int rank) {
  const int me = q.shifted(rank), children = children_in_order(q.size, me);
  return receives(children, children * q.count) + (me == 0 ? Cost{} : sends(1, q.count));
}

Cost naive_gather_cost(const Request& q, int rank) {
  const int64_t own = q.counts[static_cast<size_t>(rank)];
  return rank == q.root ? receives(q.size - 1, total_of(q.counts) - own) : sends(1, own);
}
Cost tree_gather_cost(const Request& q, int rank) {
  const int me = q.shifted(rank);
  const Blocks blocks(q.counts);
  const int64_t below = blocks.count_around(rank, members_of_subtree(q.size, me));
  return receives(children_in_order(q.size, me), below - blocks.count(rank)) + (me == 0 ? Cost{} : sends(1, below));
}
Cost naive_scatter_cost(const Request& q, int rank) {
  return reverse(naive_gather_cost(q, rank));
}
Cost tree_scatter_cost(const Request& q, int rank) {
  return reverse(tree_gather_cost(q, rank));
}

// Powers of two.

/// A rank that hands over sends `over` and gets `back`; the one before it sends and gets the reverse.
Cost fold_cost(const Fold& fold, int rank, int64_t over, int64_t back) {
  const Cost handing = sends(1, over) + receives(1, back);
  return fold.hands_over(rank) ? handing : fold.takes_over(rank) ? reverse(handing) : Cost{};
}

/// Recursive doubling: a participant receives all blocks but its own, and sends, for d = 1, 2, 4 … the d blocks of the
/// group that it is in.
Cost doubling_cost(const Fold& fold, int rank, const Blocks& blocks) {
  if (fold.hands_over(rank)) return {};
  const int index = fold.index_of(rank);
  Cost cost = receives(0, blocks.total() - blocks.count(index));
  for (int distance = 1; distance < fold.participants(); distance *= 2)
    cost = cost + sends(1, blocks.count(index / distance * distance, distance)) + receives(1, 0);
  return cost;
}
Cost halving_cost(const Fold& fold, int rank, const Blocks& blocks) {
  return reverse(doubling_cost(fold, rank, blocks));
}

Cost naive_all_reduce_cost(const Request& q, int rank) {
  return naive_reduce_cost(q, rank) + naive_broadcast_cost(q, rank);
}
Cost butterfly_all_reduce_cost(const Request& q, int rank) {
  const Fold fold(q.size);
  const int steps = fold.hands_over(rank) ? 0 : log2_up(fold.participants());
  return sends(steps, steps * q.count) + receives(steps, steps * q.count) + fold_cost(fold, rank, q.count, q.count);
}
Cost ring_all_reduce_cost(const Request& q, int rank) {
  const Blocks blocks(balanced_counts(q.count, q.size));
  const auto block = [&](int i) { return blocks.count(i % q.size); };
  const int64_t messages = 2 * (q.size - 1);
  return q.size == 1 ? Cost{}
                     : sends(messages, 2 * q.count - block(rank + 1) - block(rank + 2)) +
                           receives(messages, 2 * q.count - block(rank) - block(rank + 1));
}
Cost rabenseifner_all_reduce_cost(const Request& q, int rank) {
  const Fold fold(q.size);
  const Blocks blocks(balanced_counts(q.count, fold.participants()));
  return fold_cost(fold, rank, q.count, q.count) + halving_cost(fold, rank, blocks) + doubling_cost(fold, rank, blocks);
}

Cost naive_all_gather_cost(const Request& q, int rank) {
  const int64_t own = q.counts[static_cast<size_t>(rank)], others = q.size - 1;
  return sends(others, others * own) + receives(others, total_of(q.counts) - own);
}
Cost tree_all_gather_cost(const Request& q, int rank) {
  const Request whole{.collective = Collective::broadcast, .size = q.size, .count = total_of(q.counts)};
  return tree_gather_cost(q, rank) + tree_broadcast_cost(whole, rank);
}
Cost ring_all_gather_cost(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  return sends(q.size - 1, blocks.total() - blocks.count((rank + 1) % q.size)) +
         receives(q.size - 1, blocks.total() - blocks.count(rank));
}
Cost doubling_all_gather_cost(const Request& q, int rank) {
  const Fold fold(q.size);
  const Blocks blocks(q.counts), merged(fold.merged(q.counts));
  return fold_cost(fold, rank, blocks.count_around(rank | 1, 1), blocks.total()) + doubling_cost(fold, rank, merged);
}
Cost bruck_all_gather_cost(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  Cost cost;
  for (int have = 1; have < q.size; have *= 2) {
    const int more = std::min(have, q.size - have);
    cost = cost + sends(1, blocks.count_around(rank, more)) + receives(1, blocks.count_around(rank + have, more));
  }
  return cost;
}

Cost ring_reduce_scatter_cost(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  return sends(q.size - 1, blocks.total() - blocks.count(rank)) +
         receives(q.size - 1, blocks.total() - blocks.count((rank - 1 + q.size) % q.size));
}
Cost halving_reduce_scatter_cost(const Request& q, int rank) {
  const Fold fold(q.size);
  const Blocks blocks(q.counts), merged(fold.merged(q.counts));
  return fold_cost(fold, rank, blocks.total(), blocks.count_around(rank | 1, 1)) + halving_cost(fold, rank, merged);
}

Cost pairwise_all_to_all_cost(const Request& q, int rank) {
  Cost cost;
  for (int peer = 0; peer < q.size; ++peer)
    if (peer != rank) cost = cost + sends(1, q.between(rank, peer)) + receives(1, q.between(peer, rank));
  return cost;
}
/// The block of distance i is sent in the step of each bit of i, after the lower bits.
Cost bruck_all_to_all_cost(const Request& q, int rank) {
  const auto from_behind = [&](int gone, int distance) {
    const int sender = (rank - gone + q.size) % q.size;
    return q.between(sender, (sender + distance) % q.size);
  };
  Cost cost;
  for (int bit = 1; bit < q.size; bit *= 2) {
    cost = cost + sends(1, 0) + receives(1, 0);
    for (int i = bit; i < q.size; ++i)
      if (i & bit) cost = cost + sends(0, from_behind(i % bit, i)) + receives(0, from_behind(i % (2 * bit), i));
  }
  return cost;
}

Cost dissemination_barrier_cost(const Request& q, int) {
  return sends(log2_up(q.size), 0) + receives(log2_up(q.size), 0);
}

struct Formula {
  Collective collective;
  std::string_view algorithm;
  Cost (*cost)(const Request&, int rank);
};

constexpr Formula kFormulas[] = {
    {Collective::barrier, "dissemination", dissemination_barrier_cost},
    {Collective::broadcast, "naive", naive_broadcast_cost},
    {Collective::broadcast, "tree", tree_broadcast_cost},
    {Collective::broadcast, "ring", ring_broadcast_cost},
    {Collective::reduce, "naive", naive_reduce_cost},
    {Collective::reduce, "tree", tree_reduce_cost},
    {Collective::all_reduce, "naive", naive_all_reduce_cost},
    {Collective::all_reduce, "butterfly", butterfly_all_reduce_cost},
    {Collective::all_reduce, "ring", ring_all_reduce_cost},
    {Collective::all_reduce, "rabenseifner", rabenseifner_all_reduce_cost},
    {Collective::gather, "naive", naive_gather_cost},
    {Collective::gather, "tree", tree_gather_cost},
    {Collective::scatter, "naive", naive_scatter_cost},
    {Collective::scatter, "tree", tree_scatter_cost},
    {Collective::all_gather, "naive", naive_all_gather_cost},
    {Collective::all_gather, "tree", tree_all_gather_cost},
    {Collective::all_gather, "ring", ring_all_gather_cost},
    {Collective::all_gather, "doubling", doubling_all_gather_cost},
    {Collective::all_gather, "bruck", bruck_all_gather_cost},
    {Collective::reduce_scatter, "ring", ring_reduce_scatter_cost},
    {Collective::reduce_scatter, "halving", halving_reduce_scatter_cost},
    {Collective::all_to_all, "pairwise", pairwise_all_to_all_cost},
    {Collective::all_to_all, "bruck", bruck_all_to_all_cost},
};

}  // namespace

Cost cost_of(const Request& request, std::string_view algorithm, int rank) {
  for (const Formula& formula : kFormulas)
    if (formula.collective == request.collective && formula.algorithm == algorithm) return formula.cost(request, rank);
  throw std::logic_error("no formula for " + std::string(name(request.collective)) + " by " + std::string(algorithm));
}

}  // namespace adjoin::testing
