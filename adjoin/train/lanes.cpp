#include "adjoin/train/lanes.hpp"

#include <numeric>

#include "adjoin/task/grid_sizes.hpp"

namespace adjoin::train {

Lanes::Lanes(SameBits numbers, const Grid& grid, int microbatches)
    : numbers_(numbers),
      held_{std::make_shared<LaneGradients>(), numbers.lanes,
            balanced_range(numbers.lanes, batch_ranks(grid).size(), batch_ranks(grid).rank())},
      microbatches_(microbatches) {}

std::vector<Lanes::OfLane> Lanes::leaves(int64_t samples, int number) const {
  const auto each = static_cast<int>(numbers_.leaves);
  const Range some = balanced_range(held_.held.size() * each, microbatches_, number);
  std::vector<OfLane> leaves;
  for (int64_t i = some.begin; i < some.end; ++i) {
    const int64_t lane = held_.held.begin + i / each;
    const Range of_lane = balanced_range(samples, static_cast<int>(numbers_.lanes), static_cast<int>(lane));
    const Range leaf = balanced_range(of_lane.size(), each, static_cast<int>(i % each));
    leaves.push_back({lane, {of_lane.begin + leaf.begin, of_lane.begin + leaf.end}});
  }
  return leaves;
}

data::BatchPart Lanes::part(int64_t samples, int number) const {
  const std::vector<OfLane> all = leaves(samples, number);
  if (all.empty()) return {samples, 0};
  return {all.front().samples.begin, all.back().samples.end - all.front().samples.begin};
}

std::shared_ptr<const FixedOrder> Lanes::order(int64_t samples, int number, const MicroBatch& batch) const {
  const std::vector<int64_t>& lengths = batch.pass.rows.all().lengths();
  std::vector<int64_t> first_token{0}, first_piece{0};
  for (const int64_t length : lengths) first_token.push_back(first_token.back() + length);
  const data::BatchPart mine = part(samples, number);
  for (int64_t i = 0; i < mine.count; ++i)
    first_piece.push_back(first_piece.back() + (batch.pieces.empty() ? 1 : batch.pieces[static_cast<size_t>(i)]));
  const auto order = std::make_shared<FixedOrder>();
  *order = {.numbers = numbers_,
            .micro_batch = number,
            .leaves = {},
            .tokens = first_token.back(),
            .samples = std::ssize(lengths),
            .gradients = held_.gradients};
  const auto at = [](const std::vector<int64_t>& first, Range range) {
    return Range{first[static_cast<size_t>(range.begin)], first[static_cast<size_t>(range.end)]};
  };
  for (const auto& [lane, range] : leaves(samples, number)) {
    const Range pieces = at(first_piece, {range.begin - mine.begin, range.end - mine.begin});
    if (const Range tokens = at(first_token, pieces); tokens.size() > 0)
      order->leaves.push_back({lane, tokens, pieces});
  }
  return order;
}

std::shared_ptr<const FixedOrder> Lanes::of_evaluation() const {
  const auto order = std::make_shared<FixedOrder>();
  order->numbers = numbers_;
  return order;
}

}  // namespace adjoin::train
