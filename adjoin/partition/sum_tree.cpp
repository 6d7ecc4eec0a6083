#include "adjoin/partition/sum_tree.hpp"

#include "adjoin/base/error.hpp"

namespace adjoin {

std::string SameBits::to_string() const {
  return "lanes=" + std::to_string(lanes) + ",leaves=" + std::to_string(leaves) +
         ",features=" + std::to_string(features) + (tokens == 1 ? "" : ",tokens=" + std::to_string(tokens));
}

std::pair<Range, Range> SumTree::halves(Range node) {
  const int64_t middle = node.begin + (node.size() + 1) / 2;
  return {{node.begin, middle}, {middle, node.end}};
}

namespace {

void add_nodes(Range node, Range range, std::vector<Range>& nodes) {
  if (node.end <= range.begin || node.begin >= range.end || node.size() == 0) return;
  if (node.begin >= range.begin && node.end <= range.end) {
    nodes.push_back(node);
    return;
  }
  const auto [first, second] = SumTree::halves(node);
  add_nodes(first, range, nodes);
  add_nodes(second, range, nodes);
}

}  // namespace

std::vector<Range> SumTree::nodes_of(const std::vector<Range>& ranges) const {
  std::vector<Range> nodes;
  for (const Range& range : ranges) add_nodes({0, parts}, range, nodes);
  return nodes;
}

std::optional<Range> SumTree::parent(Range node) const {
  std::optional<Range> above;
  for (Range at{0, parts}; at != node && at.size() > 1;) {
    above = at;
    const auto [first, second] = halves(at);
    at = node.begin < second.begin ? first : second;
  }
  return above;
}

WholeParts::WholeParts(const Split& ranks, int rank, const Split& parts, const std::string& what)
    : tree{parts.parts()} {
  for (int r = 0; r < ranks.parts(); ++r) held.push_back({balanced_range(tree.parts, ranks.parts(), r)});
  local.resize(static_cast<size_t>(held_by(rank).size()));
  for (int r = 0; r < ranks.parts(); ++r)
    for (const Overlap& common : overlaps(ranks, r, parts)) {
      require(common.to >= held_by(r).begin && common.to < held_by(r).end, [&] {
        return "the same bits in every layout: " + std::to_string(ranks.parts()) +
               " ranks cannot hold whole parts of " + what + ", of which there are " + std::to_string(tree.parts) +
               ", " + parts.to_string() + "; choose other features= of --same-bits, or another --tp";
      });
      if (r == rank)
        local[static_cast<size_t>(common.to - held_by(r).begin)].push_back(
            {common.from_offset, common.from_offset + common.range.size()});
    }
}

}  // namespace adjoin
