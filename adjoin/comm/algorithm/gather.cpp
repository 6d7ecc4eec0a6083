#include <algorithm>

#include "adjoin/comm/algorithm/patterns.hpp"
#include "adjoin/comm/algorithm/programs.hpp"

namespace adjoin::algorithm {

namespace {

std::vector<int64_t> rotated(std::span<const int64_t> counts, int root) {
  std::vector<int64_t> shifted(counts.size());
  std::rotate_copy(counts.begin(), counts.begin() + root, counts.end(), shifted.begin());
  return shifted;
}

/// Where one rank keeps the blocks that pass through it on their way to the root. Ranks are shifted ones: the subtree of
/// r are those up to r + d, d its lowest bit, so that its blocks follow one another; in the root's buffer too, but for
/// the one subtree that goes over the last rank to the first.
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
  /// Where this rank's own block lies among them; not of a leaf.
  Slice kept() const {
    return me_ > 0 ? Slice{Region::scratch, 0, blocks_.count(me_)} : in_buffer_.at(Region::output, q_.root);
  }
  int64_t scratch() const {
    if (is_leaf()) return 0;
    const int in_scratch = me_ > 0 ? me_ : folded_;
    return in_scratch > 0 ? blocks_.count(in_scratch, members(in_scratch)) : 0;
  }

  /// Brings the two parts of the folded subtree home.
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

Program naive_gather(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  const Slice own{Region::input, 0, blocks.count(rank)};
  Program program;
  if (rank == q.root) program.before.push_back(copy_of(own, blocks.at(Region::output, rank)));
  add_star(program, q, rank, Transfer::Kind::receive, own, [&](int peer) { return blocks.at(Region::output, peer); });
  return program;
}

Program tree_gather(const Request& q, int rank) {
  const Subtrees subtrees(q, rank);
  Program program;
  program.scratch = subtrees.scratch();
  if (!subtrees.is_leaf()) program.before.push_back(copy_of(subtrees.own(), subtrees.kept()));
  add_tree_to_root(program, q, rank, Transfer::Kind::receive, [&](int shifted) { return subtrees.place(shifted); });
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
