#include "adjoin/comm/algorithm/block_tree.hpp"

#include <algorithm>

namespace adjoin::algorithm {

namespace {

std::vector<int64_t> rotated(std::span<const int64_t> counts, int root) {
  std::vector<int64_t> shifted(counts.size());
  std::rotate_copy(counts.begin(), counts.begin() + root, counts.end(), shifted.begin());
  return shifted;
}

}  // namespace

BlockTree::BlockTree(int rank, int size, int root, std::span<const int64_t> counts, Region own, Region whole)
    : size_(size),
      root_(root),
      me_((rank - root + size) % size),
      own_(own),
      whole_(whole),
      blocks_(rotated(counts, root)),
      in_buffer_(counts) {}

int BlockTree::members(int shifted) const {
  return shifted == 0 ? size_ : std::min(shifted & -shifted, size_ - shifted);
}

Slice BlockTree::place(int shifted) const {
  const int64_t count = blocks_.count(shifted, members(shifted));
  if (is_leaf()) return own();
  if (me_ > 0) return {Region::scratch, blocks_.count(me_, shifted - me_), count};
  return goes_over(shifted) ? Slice{Region::scratch, 0, count}
                            : in_buffer_.at(whole_, actual(shifted), members(shifted));
}

Slice BlockTree::kept() const {
  if (is_leaf()) return own();
  return me_ > 0 ? Slice{Region::scratch, 0, blocks_.count(me_)} : in_buffer_.at(whole_, root_);
}

std::vector<std::pair<Slice, Slice>> BlockTree::folded(int shifted) const {
  if (me_ > 0 || !goes_over(shifted)) return {};
  const int first = actual(shifted), head = size_ - first;
  const Slice before = in_buffer_.at(whole_, first, head);
  const Slice after = in_buffer_.at(whole_, 0, members(shifted) - head);
  return {{before, {Region::scratch, 0, before.count}}, {after, {Region::scratch, before.count, after.count}}};
}

int64_t BlockTree::scratch() const {
  if (is_leaf()) return 0;
  if (me_ > 0) return blocks_.count(me_, members(me_));
  for (int child = 1; child < size_; child *= 2)
    if (goes_over(child)) return blocks_.count(child, members(child));
  return 0;
}

}  // namespace adjoin::algorithm
