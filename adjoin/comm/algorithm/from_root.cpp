#include "adjoin/comm/algorithm/programs.hpp"

#include <algorithm>

#include "adjoin/comm/algorithm/patterns.hpp"

namespace adjoin::algorithm {

using enum Transfer::Kind;

namespace {

std::vector<int64_t> rotated(std::span<const int64_t> counts, int root) {
  std::vector<int64_t> shifted(counts.size());
  std::rotate_copy(counts.begin(), counts.begin() + root, counts.end(), shifted.begin());
  return shifted;
}

/// Where one rank keeps the blocks that pass through it on their way to the root. Ranks are shifted ones: the subtree of r has
/// the ranks from r up to, but not including, r + d, where d is its lowest set bit, so its blocks are contiguous. They are
/// contiguous in the root's buffer too, except for the one subtree that wraps around from the last rank to the first.
class Subtrees {
 public:
  Subtrees(const Request& q, int rank)
      : q_(q), me_(q.shifted(rank)), blocks_(rotated(q.counts, q.root)), in_buffer_(q.counts) {
    for (int child = 1; me_ == 0 && child < q.size; child *= 2)
      if (q.actual(child) + members(child) > q.size) folded_ = child;
  }

  bool is_leaf() const { return me_ > 0 && members(me_) == 1; }
  Slice own() const { return {Region::input, 0, blocks_.count(me_)}; }

  Slice place(int shifted) const {
    const int64_t count = blocks_.count(shifted, members(shifted));
    if (is_leaf()) return own();
    if (me_ > 0) return {Region::scratch, blocks_.count(me_, shifted - me_), count};
    if (shifted == folded_) return {Region::scratch, 0, count};
    return in_buffer_.at(Region::output, q_.actual(shifted), members(shifted));
  }
  /// Where this rank's own block is among them; not for a leaf.
  Slice kept() const {
    return me_ > 0 ? Slice{Region::scratch, 0, blocks_.count(me_)} : in_buffer_.at(Region::output, q_.root);
  }
  int64_t scratch() const {
    if (is_leaf()) return 0;
    const int in_scratch = me_ > 0 ? me_ : folded_;
    return in_scratch > 0 ? blocks_.count(in_scratch, members(in_scratch)) : 0;
  }

  /// Copies the two parts of the folded subtree to their places.
  void unfold(std::vector<LocalMove>& moves) const {
    if (folded_ == 0) return;
    const int first = q_.actual(folded_), head = q_.size - first;
    const Slice at_end = in_buffer_.at(Region::output, first, head);
    const Slice at_start = in_buffer_.at(Region::output, 0, members(folded_) - head);
    moves.push_back(copy_of({Region::scratch, 0, at_end.count}, at_end));
    moves.push_back(copy_of({Region::scratch, at_end.count, at_start.count}, at_start));
  }

 private:
  int members(int shifted) const { return shifted == 0 ? q_.size : std::min(shifted & -shifted, q_.size - shifted); }

  const Request& q_;
  int me_, folded_ = 0;
  Blocks blocks_;     // in shifted order
  Blocks in_buffer_;  // in the order of ranks
};

}  // namespace

Program naive_broadcast(const Request& q, int rank) {
  const Slice all{Region::output, 0, q.count};
  Program program;
  add_star(program, q, rank, send, all, [&](int) { return all; });
  return program;
}

Program tree_broadcast(const Request& q, int rank) {
  const int me = q.shifted(rank);  // the tree grows from shifted rank 0
  const Slice all{Region::output, 0, q.count};
  Program program;
  for (int holders = 1; holders < q.size; holders *= 2) {
    Step& step = program.steps.emplace_back();
    if (me < holders && me + holders < q.size)
      step.transfers.push_back(send_to(q.actual(me + holders), all));
    else if (me >= holders && me < 2 * holders)
      step.transfers.push_back(receive_from(q.actual(me - holders), all));
  }
  return program;
}

Program ring_broadcast(const Request& q, int rank) {
  const int64_t pieces = q.pieces();
  const int me = q.shifted(rank);
  Program program;
  if (q.size == 1) return program;
  program.steps.resize(static_cast<size_t>(q.size - 2 + pieces));
  for (int64_t k = 0; k < pieces; ++k) {  // piece k reaches shifted rank r in step r - 1 + k
    const int64_t begin = k * q.chunk;
    const Slice piece{Region::output, begin, pieces == 1 ? q.count : std::min(q.chunk, q.count - begin)};
    const auto transfers = [&](int64_t step) -> auto& { return program.steps[static_cast<size_t>(step)].transfers; };
    if (me > 0) transfers(me - 1 + k).push_back(receive_from(q.actual(me - 1), piece));
    if (me < q.size - 1) transfers(me + k).push_back(send_to(q.actual(me + 1), piece));
  }
  return program;
}

Program naive_reduce(const Request& q, int rank) {
  const Slice given{Region::input, 0, q.count}, result{Region::output, 0, q.count};
  Program program;
  if (rank == q.root) program.before.push_back(copy_of(given, result));
  add_star(program, q, rank, receive_and_reduce, given, [&](int) { return result; });
  return program;
}

Program tree_reduce(const Request& q, int rank) {
  const int me = q.shifted(rank);
  const bool is_leaf = me % 2 == 1 || me + 1 >= q.size;
  const Slice input{Region::input, 0, q.count};
  const Slice sum = me == 0 ? Slice{Region::output, 0, q.count} : is_leaf ? input : Slice{Region::scratch, 0, q.count};
  Program program;
  program.scratch = sum.region == Region::scratch ? q.count : 0;
  if (sum != input) program.before.push_back(copy_of(input, sum));
  add_tree_to_root(program, q, rank, receive_and_reduce, [&](int) { return sum; });
  return program;
}

Program naive_gather(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  const Slice own{Region::input, 0, blocks.count(rank)};
  Program program;
  if (rank == q.root) program.before.push_back(copy_of(own, blocks.at(Region::output, rank)));
  add_star(program, q, rank, receive, own, [&](int peer) { return blocks.at(Region::output, peer); });
  return program;
}

Program tree_gather(const Request& q, int rank) {
  const Subtrees subtrees(q, rank);
  Program program;
  program.scratch = subtrees.scratch();
  if (!subtrees.is_leaf()) program.before.push_back(copy_of(subtrees.own(), subtrees.kept()));
  add_tree_to_root(program, q, rank, receive, [&](int shifted) { return subtrees.place(shifted); });
  subtrees.unfold(last_moves(program));
  return program;
}

Program naive_scatter(const Request& q, int rank) {
  return reversed(naive_gather(q, rank));
}

Program tree_scatter(const Request& q, int rank) {
  return reversed(tree_gather(q, rank));
}

}  // namespace adjoin::algorithm
