#include "adjoin/movement/fixed_order.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>
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

void FixedOrder::for_each_lane(
    int64_t rows, const std::function<void(int64_t row, int64_t lane, std::span<const Range> rows)>& work) const {
  for (auto begin = leaves.begin(); begin != leaves.end();) {
    const auto end = std::find_if(begin, leaves.end(), [&](const Leaf& leaf) { return leaf.lane != begin->lane; });
    const std::vector<Range> of_lane = rows_of(std::span(begin, end), rows);
    const int64_t lane = std::exchange(begin, end)->lane;
    if (!of_lane.empty()) work((source + 1) * numbers.tokens + lane / numbers.lanes, lane, of_lane);
  }
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

Split rows_of_ranks(int64_t rows, int ranks) {
  const auto order = FixedOrder::current();
  if (!order || order->leaves.empty()) return Split::balanced(rows, ranks, 0);
  const std::vector<Range> blocks = order->blocks_of(order->rows_of(order->leaves, rows));
  std::vector<int64_t> starts;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto first = static_cast<size_t>(balanced_range(std::ssize(blocks), ranks, rank).begin);
    starts.push_back(first < blocks.size() ? blocks[first].begin : rows);
  }
  return Split::at(std::move(starts), rows, 0);
}

LocalTokenRows rows_of_rank(const LocalTokenRows& rows, const Communicator& group) {
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
  Sums& sums = sums_[{parameter.unsafeGetTensorImpl(), use}];
  const auto [last, is_first] = sums.micro_batches.try_emplace(order.source, order.micro_batch);
  require(
      is_first || last->second < order.micro_batch,
      "the same bits in every layout: a weight is used twice in a model, or backward takes micro-batches in another "
      "order than forward");
  last->second = order.micro_batch;
  if (!sums.of_lanes)
    sums.of_lanes.emplace(SumTree{order.numbers.all_lanes()},
                          [](const at::Tensor& sum, const at::Tensor& more) { return sum.add_(more); });
  order.for_each_lane(rows, [&](int64_t row, int64_t lane, std::span<const Range> some) {
    const auto zeros = [&] {
      return zeros_ ? zeros_(parameter)
                    : at::zeros(parameter.sizes(), at::dtype(at::kFloat).device(parameter.device()));
    };
    add_to(sums.of_lanes->of(row, lane, zeros), some);
  });
  if (!order.is_last) return;
  sums.of_lanes->complete();
  const auto found = at_last_.find(parameter.unsafeGetTensorImpl());
  if (found != at_last_.end()) found->second();
}

int64_t LaneGradients::bytes() const {
  int64_t bytes = 0;
  for (const auto& [key, sums] : sums_)
    if (sums.of_lanes)
      for (const at::Tensor* sum : sums.of_lanes->all()) bytes += static_cast<int64_t>(sum->nbytes());
  return bytes;
}

void LaneGradients::at_last(const at::Tensor& parameter, std::function<void()> work) {
  at_last_.erase(parameter.unsafeGetTensorImpl());
  if (work) at_last_.emplace(parameter.unsafeGetTensorImpl(), std::move(work));
}

void LaneGradients::begin_step() {
  for (auto& [key, sums] : sums_) {
    sums.of_lanes.reset();
    // Which sources there are stays known.
    for (auto& [source, micro_batch] : sums.micro_batches) micro_batch = -1;
  }
}

bool LaneGradients::has(const at::Tensor& parameter, WeightUse use) const {
  return sums_.contains({parameter.unsafeGetTensorImpl(), use});
}

bool LaneGradients::has_sources(const at::Tensor& parameter) const {
  const auto found = sums_.find({parameter.unsafeGetTensorImpl(), WeightUse::product});
  return found != sums_.end() && found->second.micro_batches.rbegin()->first >= 0;
}

at::Tensor LaneGradients::take(const at::Tensor& parameter, WeightUse use, Range node) {
  const auto found = sums_.find({parameter.unsafeGetTensorImpl(), use});
  if (found == sums_.end() || !found->second.of_lanes) return {};
  return found->second.of_lanes->take(node).value_or(at::Tensor());
}

std::vector<std::vector<Range>> HeldLanes::of_copies(const std::vector<int>& some, bool is_of_experts) const {
  std::set<std::pair<int, int64_t>> sent;
  std::vector<std::vector<Range>> of_copies;
  for (const int rank : some) {
    const OfRank& of = ranks[static_cast<size_t>(rank)];
    std::vector<Range>& mine = of_copies.emplace_back();
    for (const Range& range : is_of_experts ? of.of_sources : of.held)
      for (int64_t lane = range.begin; lane < range.end; ++lane) {
        if (!sent.emplace(of.stage, lane).second) continue;
        if (mine.empty() || mine.back().end != lane) mine.push_back({lane, lane});
        ++mine.back().end;
      }
  }
  return of_copies;
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
