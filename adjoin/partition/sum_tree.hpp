#pragma once

#include <cstdint>
#include <functional>
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
  /// The fewest nodes that together are a range of parts, in order: of each of some ranges in turn.
  std::vector<Range> nodes_of(const std::vector<Range>& ranges) const;
  /// The node of which this is a half; none for the root.
  std::optional<Range> parent(Range node) const;
};

/// The sum of a node from those that `there(node)` gives, which returns nothing for nodes that must be added up from their
/// halves. A half of which none are there adds nothing.
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

/// Values of a tree's nodes, each given once, in any order: two halves are added as soon as both are there.
template <class Value>
class SumArrivals {
 public:
  using Add = std::function<Value(Value left, Value right)>;

  SumArrivals(SumTree tree, Add add) : tree_(tree), add_(std::move(add)) {}

  void add(Range node, Value value) {
    for (std::optional<Range> parent; (parent = tree_.parent(node)); node = *parent) {
      const auto [first, second] = SumTree::halves(*parent);
      const auto other = nodes_.find(node == first ? second : first);
      if (other == nodes_.end()) break;
      value = node == first ? add_(std::move(value), std::move(other->second))
                            : add_(std::move(other->second), std::move(value));
      nodes_.erase(other);
    }
    nodes_.emplace(node, std::move(value));
  }
  /// The sum of a node of what is there of it, which is then forgotten; nothing where none is.
  std::optional<Value> take(Range node) {
    const auto there = [&](Range wanted) -> std::optional<Value> {
      const auto found = nodes_.find(wanted);
      return found == nodes_.end() ? std::nullopt : std::optional(std::move(nodes_.extract(found).mapped()));
    };
    return sum_of_node<Value>(node, there, add_);
  }
  /// What is there, in order; at the end it is the root alone.
  const auto& nodes() const { return nodes_; }
  SumTree tree() const { return tree_; }

 private:
  SumTree tree_;
  Add add_;
  std::map<Range, Value> nodes_;
};

/// Sums of a tree's parts that grow over time. Parts of one row (any number) come one after another, and a part is complete as soon
/// as its row's next one begins: then it is added to others as they come. So few sums are there at once.
template <class Value>
class GrowingSums {
 public:
  GrowingSums(SumTree tree, typename SumArrivals<Value>::Add add) : complete_(tree, std::move(add)) {}

  /// The sum so far of a part, which begins as `make()`.
  template <class Make>
  Value& of(int64_t row, int64_t part, const Make& make) {
    const auto found = growing_.find(row);
    if (found != growing_.end() && found->second.first != part) complete(growing_.extract(found).mapped());
    return growing_.try_emplace(row, part, make()).first->second.second;
  }
  /// Nothing more comes of the parts that are there.
  void complete() {
    while (!growing_.empty()) complete(growing_.extract(growing_.begin()).mapped());
  }
  /// The sum of a node of what is there of it, which is then complete and forgotten. Nothing where none is there.
  std::optional<Value> take(Range node) {
    complete();
    return complete_.take(node);
  }
  /// All sums that are there.
  std::vector<const Value*> all() const {
    std::vector<const Value*> all;
    for (const auto& [row, part] : growing_) all.push_back(&part.second);
    for (const auto& [node, value] : complete_.nodes()) all.push_back(&value);
    return all;
  }

 private:
  using Part = std::pair<int64_t, Value>;
  void complete(Part part) { complete_.add({part.first, part.first + 1}, std::move(part.second)); }

  std::map<int64_t, Part> growing_;  // by row
  SumArrivals<Value> complete_;
};

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
