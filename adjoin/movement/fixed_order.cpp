#include "adjoin/movement/fixed_order.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/postponed.hpp"

namespace adjoin {
namespace {

thread_local std::shared_ptr<const FixedOrder> of_thread;

}  // namespace

std::shared_ptr<const FixedOrder> FixedOrder::current() {
  return of_thread;
}

std::vector<Range> FixedOrder::rows_of(std::span<const Leaf> some, int64_t rows) const {
  const bool are_tokens = rows == tokens;
  require(are_tokens || rows == samples, [&] {
    return "the same bits in every layout: expected a tensor of this micro-batch's " + std::to_string(tokens) +
           " tokens or " + std::to_string(samples) + " samples, got one of " + std::to_string(rows) + " rows";
  });
  std::vector<Range> ranges;
  for (const Leaf& leaf : some)
    if (are_tokens || leaf.samples.size() > 0) ranges.push_back(are_tokens ? leaf.tokens : leaf.samples);
  return ranges;
}

std::vector<int64_t> FixedOrder::leaf_of_tokens() const {
  std::vector<int64_t> numbers_of;
  for (const Leaf& leaf : leaves)
    numbers_of.insert(numbers_of.end(), static_cast<size_t>(leaf.tokens.size()), leaf.number);
  return numbers_of;
}

std::vector<Range> FixedOrder::blocks_of(std::span<const Range> leaves) const {
  const auto each = static_cast<int>(numbers.features);
  std::vector<Range> blocks;
  for (const Range& leaf : leaves)
    for (int i = 0; i < each; ++i) {
      const Range block = balanced_range(leaf.size(), each, i);
      blocks.push_back({leaf.begin + block.begin, leaf.begin + block.end});
    }
  return blocks;
}

Split FixedOrder::rows_of_ranks(int64_t rows, int ranks) const {
  if (leaves.empty()) return Split::balanced(rows, ranks, 0);
  const std::vector<Range> blocks = blocks_of(rows_of(leaves, rows));
  std::vector<int64_t> starts;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto first = static_cast<size_t>(balanced_range(std::ssize(blocks), ranks, rank).begin);
    starts.push_back(first < blocks.size() ? blocks[first].begin : rows);
  }
  return Split::at(std::move(starts), rows, 0);
}

Split rows_of_ranks(int64_t rows, int ranks) {
  const auto order = FixedOrder::current();
  return order ? order->rows_of_ranks(rows, ranks) : Split::balanced(rows, ranks, 0);
}

LocalRows rows_of_rank(const LocalRows& rows, const Communicator& group) {
  const Split of_ranks = rows_of_ranks(rows.size(), group.size());
  return rows.part({of_ranks.offset(group.rank()), of_ranks.offset(group.rank() + 1)});
}

Split samples_of_ranks(int64_t samples, int ranks) {
  if (!FixedOrder::current()) return Split::balanced(samples, ranks, 0);
  std::vector<int64_t> starts(static_cast<size_t>(ranks), samples);
  starts[0] = 0;
  return Split::at(std::move(starts), samples, 0);
}

WithOrder::WithOrder(std::shared_ptr<const FixedOrder> order) : before_(std::exchange(of_thread, std::move(order))) {}

WithOrder::~WithOrder() {
  of_thread = std::move(before_);
}

void LaneGradients::add(const FixedOrder& order, const at::Tensor& parameter, WeightUse use, int64_t rows,
                        const AddToSum& add_to) {
  Sums& sums = sums_[{parameter.unsafeGetTensorImpl(), use}][order.source];
  require(
      sums.micro_batch < order.micro_batch,
      "the same bits in every layout: a weight is used twice in a model, or backward takes micro-batches in another "
      "order than forward");
  sums.micro_batch = order.micro_batch;
  sums.blocks.resize(static_cast<size_t>(order.numbers.tokens));
  for (auto begin = order.leaves.begin(); begin != order.leaves.end();) {
    const auto end =
        std::find_if(begin, order.leaves.end(), [&](const Leaf& leaf) { return leaf.lane != begin->lane; });
    const std::vector<Range> some = order.rows_of(std::span(begin, end), rows);
    const int64_t lane = std::exchange(begin, end)->lane;
    if (some.empty()) continue;
    OfBlock& block = sums.blocks[static_cast<size_t>(lane / order.numbers.lanes)];
    if (lane != block.lane) {
      complete(block, {order.numbers.all_lanes()});
      block.lane = lane;
      block.nodes.emplace_back(
          Range{lane, lane + 1},
          at::zeros(parameter.sizes(), parameter.options().dtype(at::kFloat).requires_grad(false)));
    }
    add_to(block.nodes.back().second, some);
  }
}

/// Adds the last two nodes while they are the halves of one.
void LaneGradients::complete(OfBlock& block, SumTree tree) {
  while (block.nodes.size() > 1) {
    auto& [first, sum] = block.nodes[block.nodes.size() - 2];
    const auto& [second, more] = block.nodes.back();
    if (first.end != second.begin || tree.nodes_of({first.begin, second.end}).size() > 1) return;
    sum.add_(more);
    first.end = second.end;
    block.nodes.pop_back();
  }
}

void LaneGradients::begin_step() {
  for (auto& [key, of_sources] : sums_)
    for (auto& [source, sums] : of_sources) sums = {};
}

bool LaneGradients::has(const at::Tensor& parameter, WeightUse use) const {
  return sums_.contains({parameter.unsafeGetTensorImpl(), use});
}

bool LaneGradients::has_sources(const at::Tensor& parameter) const {
  const auto found = sums_.find({parameter.unsafeGetTensorImpl(), WeightUse::product});
  return found != sums_.end() && found->second.rbegin()->first >= 0;
}

at::Tensor LaneGradients::take(const at::Tensor& parameter, WeightUse use, Range node) {
  const auto found = sums_.find({parameter.unsafeGetTensorImpl(), use});
  if (found == sums_.end()) return {};
  const auto there = [&](Range wanted) -> std::optional<at::Tensor> {
    for (auto& [source, sums] : found->second)
      for (const OfBlock& block : sums.blocks)
        for (const auto& [range, sum] : block.nodes)
          if (range == wanted) return sum;
    return std::nullopt;
  };
  const at::Tensor total = sum_of_node<at::Tensor>(node, there, [](at::Tensor left, const at::Tensor& right) {
                             return left.add_(right);
                           }).value_or(at::Tensor());
  for (auto& [source, sums] : found->second)
    for (OfBlock& block : sums.blocks)
      std::erase_if(block.nodes,
                    [&](const auto& one) { return one.first.begin >= node.begin && one.first.end <= node.end; });
  return total;
}

at::Tensor add_to_lanes(const std::shared_ptr<const FixedOrder>& order, const at::Tensor& parameter, WeightUse use,
                        int64_t rows, AddToSum add_to) {
  require(parameter.is_leaf(), "the same bits in every layout: a weight that was computed has no lanes");
  if (!order->gradients) return {};
  return parameter_gradient(parameter, [=, add_to = std::move(add_to)] {
    order->gradients->add(*order, parameter, use, rows, add_to);
    return at::Tensor();
  });
}

}  // namespace adjoin
