#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/partition/split.hpp"

namespace adjoin {

/// How sums are divided so that they have the same bits in every layout: parts that no rank shares with another, and an order in
/// which they are added.
struct SameBits {
  int64_t lanes = 4;     ///< ranges of the global batch's samples
  int64_t leaves = 1;    ///< ranges of a lane's samples, whose products are added one after another
  int64_t features = 2;  ///< ranges of what tensor parallelism cuts: heads, hidden features, words
  int64_t tokens = 1;    ///< ranges of each sample's tokens: its blocks, of which a context-parallel rank holds some
  bool operator==(const SameBits&) const = default;
  /// Of the tree of weights' gradients: each lane has a part for each block of tokens.
  int64_t all_lanes() const { return lanes * tokens; }
  /// "lanes=4,leaves=1,features=2", and ",tokens=4" unless that is 1
  std::string to_string() const;
};

/// Numbered parts that are added as a tree: a node is a range of parts, and its two children are its balanced halves. So a sum
/// has one order, whoever holds which parts and in whatever order they come.
struct SumTree {
  int64_t parts = 1;

  /// The two halves of a node of more than one part.
  static std::pair<Range, Range> halves(Range node);
  /// The fewest nodes that together are a range of parts, in order.
  std::vector<Range> nodes_of(Range range) const;
  /// The node of which this is a half; none for the root.
  std::optional<Range> parent(Range node) const;
};

/// Values of a tree's nodes, each given once, in any order: two halves are added as soon as both are there.
template <class Value>
class SumArrivals {
 public:
  explicit SumArrivals(SumTree tree) : tree_(tree) {}

  template <class Add>
  void add(Range node, Value value, const Add& add) {
    for (std::optional<Range> parent; (parent = tree_.parent(node)); node = *parent) {
      const auto [first, second] = SumTree::halves(*parent);
      const auto other = nodes_.find(node == first ? second : first);
      if (other == nodes_.end()) break;
      value = node == first ? add(std::move(value), std::move(other->second))
                            : add(std::move(other->second), std::move(value));
      nodes_.erase(other);
    }
    nodes_.emplace(node, std::move(value));
  }
  /// What is there, in order; at the end it is the root alone.
  const auto& nodes() const { return nodes_; }
  SumTree tree() const { return tree_; }

 private:
  SumTree tree_;
  std::map<Range, Value> nodes_;
};

/// The sum of a node from those that `there(node)` gives, which returns nothing for nodes that must be added up from their
/// halves; `absent` where it gives none of a half's parts either, which then adds nothing.
template <class Value, class There, class Add>
std::optional<Value> sum_of_node(Range node, const There& there, const Add& add) {
  if (node.size() == 0) return std::nullopt;
  if (std::optional<Value> value = there(node)) return value;
  if (node.size() == 1) return std::nullopt;
  const auto [first, second] = SumTree::halves(node);
  std::optional<Value> left = sum_of_node<Value>(first, there, add), right = sum_of_node<Value>(second, there, add);
  if (!left || !right) return left ? std::move(left) : std::move(right);
  return add(*std::move(left), *std::move(right));
}

/// Parts of something that is cut over ranks, none of which holds a part of a part.
struct WholeParts {
  SumTree tree;
  std::vector<std::vector<Range>> held;   ///< for each rank the parts that it holds, one range of them
  std::vector<std::vector<Range>> local;  ///< for each part of this rank, its ranges of this rank's indices

  /// Those of a rank.
  Range held_by(int rank) const { return held[static_cast<size_t>(rank)].front(); }
  /// The parts of `parts`, which rank `rank` holds as in `ranks`: each of a balanced range of them.
  /// Throws: InvalidArgument where a rank holds other indices than those of its parts; `what` names them
  WholeParts(const Split& ranks, int rank, const Split& parts, const std::string& what);
};

}  // namespace adjoin
