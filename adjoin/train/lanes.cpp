#include "adjoin/train/lanes.hpp"

#include <numeric>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/processes.hpp"
#include "adjoin/comm/contract/common_cause.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/task/grid_sizes.hpp"

namespace adjoin::train {

namespace {

/// The lanes of all ranks along the experts' axis, the inner one of those of the batch.
Range lanes_along_experts(int64_t lanes, const Grid& grid) {
  const Communicator batch = batch_ranks(grid), experts = grid.axis("ep");
  const int first = batch.rank() - experts.rank();
  return {balanced_range(lanes, batch.size(), first).begin,
          balanced_range(lanes, batch.size(), first + experts.size() - 1).end};
}

}  // namespace

Lanes::Lanes(const FixedOrder& order, const Grid& grid, int microbatches)
    : numbers_(order.numbers),
      blocks_(order.blocks),
      cp_(grid.coordinate("cp")),
      of_samples_(balanced_range(numbers_.lanes, batch_ranks(grid).size(), batch_ranks(grid).rank())),
      held_{std::make_shared<LaneGradients>(), numbers_.all_lanes(), in_blocks(of_samples_),
            in_blocks(lanes_along_experts(numbers_.lanes, grid))},
      microbatches_(microbatches) {}

template <class Work>
void Lanes::for_each_block(const Work& work) const {
  for (const Range& held : blocks_.held[static_cast<size_t>(cp_)])
    for (int64_t block = held.begin; block < held.end; ++block) work(block);
}

std::vector<Range> Lanes::in_blocks(Range lanes) const {
  std::vector<Range> all;
  for_each_block([&](int64_t block) {
    all.push_back({block * numbers_.lanes + lanes.begin, block * numbers_.lanes + lanes.end});
  });
  return all;
}

std::vector<Lanes::OfLane> Lanes::leaves(int64_t samples, int number) const {
  const auto each = static_cast<int>(numbers_.leaves);
  const Range some = balanced_range(of_samples_.size() * each, microbatches_, number);
  std::vector<OfLane> leaves;
  for (int64_t i = some.begin; i < some.end; ++i) {
    const int64_t lane = of_samples_.begin + i / each;
    const Range of_lane = balanced_range(samples, static_cast<int>(numbers_.lanes), static_cast<int>(lane));
    const Range leaf = balanced_range(of_lane.size(), each, static_cast<int>(i % each));
    leaves.push_back({lane, {of_lane.begin + leaf.begin, of_lane.begin + leaf.end}, lane * each + i % each});
  }
  return leaves;
}

data::BatchPart Lanes::part(int64_t samples, int number) const {
  const std::vector<OfLane> all = leaves(samples, number);
  if (all.empty()) return {samples, 0};
  return {all.front().samples.begin, all.back().samples.end - all.front().samples.begin};
}

void check_kernels(const std::vector<nn::fixed::KeptPromise>& kernels, const Communicator& world) {
  std::vector<int64_t> mine;
  for (const auto& kernel : kernels)
    mine.insert(mine.end(), {kernel.broken, static_cast<int64_t>(kernel.first_result)});
  std::vector<int64_t> all(mine.size() * static_cast<size_t>(world.size()));
  world.all_gather(buffer(mine), buffer(all), std::vector(static_cast<size_t>(world.size()), std::ssize(mine)));
  const std::vector<std::string> hosts = texts_of_all(host_name(), world);
  const auto on_rank = [&](size_t rank) { return "rank " + std::to_string(rank) + " on " + hosts[rank]; };
  for (size_t rank = 0; rank < hosts.size(); ++rank)
    for (size_t i = 0; i < kernels.size(); ++i) {
      const int64_t* const of_rank = &all[rank * mine.size() + 2 * i];
      if (of_rank[0] > 0)
        throw Common<Error>("--same-bits: " + kernels[i].kernel + " change with what is computed beside them on " +
                            on_rank(rank) + "; adjoin doctor --same-bits says more");
      if (of_rank[1] != all[2 * i + 1])
        throw Common<Error>("--same-bits: " + kernels[i].kernel + " give other bits on " + on_rank(rank) + " than on " +
                            on_rank(0) + "; expected one type of processor and one LibTorch");
    }
}

std::shared_ptr<const FixedOrder> Lanes::order(int64_t samples, int number, const MicroBatch& batch) const {
  const std::vector<int64_t>& lengths = batch.pass.rows.all().lengths();
  const data::BatchPart mine = part(samples, number);
  std::vector<int64_t> first_piece{0};
  for (int64_t i = 0; i < mine.count; ++i)
    first_piece.push_back(first_piece.back() + (batch.pieces.empty() ? 1 : batch.pieces[static_cast<size_t>(i)]));
  const auto order = std::make_shared<FixedOrder>();
  *order = {.numbers = numbers_,
            .micro_batch = number,
            .leaves = {},
            .tokens = 0,
            .samples = cp_ == 0 ? std::ssize(lengths) : 0,  // which has the first block
            .blocks = blocks_,
            .gradients = held_.gradients};
  for_each_block([&](int64_t block) {
    const auto rows_of = [&](int64_t piece) {
      return balanced_range(lengths[static_cast<size_t>(piece)], static_cast<int>(numbers_.tokens),
                            static_cast<int>(block))
          .size();
    };
    for (const auto& [lane, range, of_all] : leaves(samples, number)) {
      const Range pieces{first_piece[static_cast<size_t>(range.begin - mine.begin)],
                         first_piece[static_cast<size_t>(range.end - mine.begin)]};
      const int64_t first = order->tokens;
      for (int64_t piece = pieces.begin; piece < pieces.end; ++piece) order->tokens += rows_of(piece);
      if (order->tokens > first)
        order->leaves.push_back({block * numbers_.lanes + lane,
                                 {first, order->tokens},
                                 block == 0 ? pieces : Range{},
                                 block * numbers_.lanes * numbers_.leaves + of_all});
    }
  });
  return order;
}

}  // namespace adjoin::train
