#include "adjoin/train/lanes.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/processes.hpp"
#include "adjoin/comm/contract/common_cause.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/task/same_bits.hpp"

namespace adjoin::train {

Lanes::Lanes(const FixedOrder& order, const Grid& grid, int microbatches)
    : numbers_(order.numbers),
      blocks_(order.blocks),
      cp_(grid.coordinate("cp")),
      of_samples_(balanced_range(numbers_.lanes, batch_ranks(grid).size(), batch_ranks(grid).rank())),
      held_{std::make_shared<LaneGradients>(), {numbers_.all_lanes()}, {}},
      microbatches_(microbatches) {
  const GridShape& shape = grid.shape();
  const int along_experts = shape.axis_size("ep"), batch = shape.axis_size("dp") * along_experts;
  const int first_source = batch_ranks(grid).rank() - grid.coordinate("ep");
  for (int source = 0; source < along_experts; ++source)
    of_sources_.push_back(balanced_range(numbers_.lanes, batch, first_source + source));
  held_.ranks.resize(static_cast<size_t>(shape.cells()));
  for (int cell = 0; cell < shape.cells(); ++cell) {
    const std::vector<int> place = shape.coordinates(cell);
    const auto along = [&](const char* axis) { return place[static_cast<size_t>(shape.axis_index(axis))]; };
    // The experts' axis is the inner one of those of the batch.
    const int first = along("dp") * along_experts, last = first + along_experts - 1, cp = along("cp");
    const auto lanes_of = [&](int rank) { return balanced_range(numbers_.lanes, batch, rank); };
    held_.ranks[static_cast<size_t>(shape.rank_of(cell))] = {
        .held = in_blocks(lanes_of(first + along("ep")), cp),
        .of_sources = in_blocks({lanes_of(first).begin, lanes_of(last).end}, cp),
        .stage = along("pp")};
  }
}

std::vector<Range> Lanes::in_blocks(Range lanes, int cp) const {
  std::vector<Range> all;
  for (const int64_t block : blocks_.held[static_cast<size_t>(cp)])
    all.push_back({block * numbers_.lanes + lanes.begin, block * numbers_.lanes + lanes.end});
  return all;
}

std::vector<Lanes::OfLane> Lanes::leaves(int64_t samples, int number, Range lanes) const {
  const auto each = static_cast<int>(numbers_.leaves);
  const Range some = balanced_range(lanes.size() * each, microbatches_, number);
  std::vector<OfLane> leaves;
  for (int64_t i = some.begin; i < some.end; ++i) {
    const int64_t lane = lanes.begin + i / each;
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

std::optional<Lanes> lanes_of(const Configuration& configuration, const Grid& grid) {
  const auto order = order_of(configuration);
  if (!order) return std::nullopt;
  return Lanes(*order, grid, static_cast<int>(configuration.microbatches));
}

OrderedBatch batch_of_step(const Configuration& configuration, const Task& task, std::span<const int64_t> samples,
                           int number, const Step& step, const at::TensorOptions& tensor, const Grid& grid,
                           const std::optional<Lanes>& lanes) {
  const int64_t size = std::ssize(samples);
  const auto make = [&](const data::BatchPart& part) {
    return micro_batch_of(task, data::Part::train, samples, part, step, tensor, grid);
  };
  if (!lanes) return {make(part_of_batch(task, size, grid, number, static_cast<int>(parts_of_step(configuration))))};
  const WithOrder with_order(order_of(configuration));
  MicroBatch batch = make(lanes->part(size, number));
  auto order = lanes->order(size, number, batch);
  return {std::move(batch), std::move(order)};
}

std::vector<int64_t> Lanes::sums_kept(int64_t samples, bool is_of_experts) const {
  const std::vector<Range> sources = is_of_experts ? of_sources_ : std::vector<Range>{of_samples_};
  GrowingSums<char> sums(held_.tree);
  const auto add = [](char, char) { return '+'; };
  std::vector<int64_t> kept;
  for (int number = 0; number < microbatches_; ++number) {
    for (size_t source = 0; source < sources.size(); ++source)
      for (const int64_t block : blocks_.held[static_cast<size_t>(cp_)])
        for (const OfLane& leaf : leaves(samples, number, sources[source]))
          sums.of(
              static_cast<int64_t>(source) * numbers_.tokens + block, block * numbers_.lanes + leaf.lane,
              [] { return '0'; }, add);
    if (number + 1 == microbatches_) sums.complete(add);
    kept.push_back(std::ssize(sums.all()));
  }
  return kept;
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
            .is_last = number + 1 == microbatches_,
            .blocks = blocks_,
            .gradients = held_.gradients};
  for (const int64_t block : blocks_.held[static_cast<size_t>(cp_)])
    for (const auto& [lane, range, of_all] : leaves(samples, number)) {
      const Range pieces{first_piece[static_cast<size_t>(range.begin - mine.begin)],
                         first_piece[static_cast<size_t>(range.end - mine.begin)]};
      const int64_t first = order->tokens;
      for (int64_t piece = pieces.begin; piece < pieces.end; ++piece)
        order->tokens += blocks_.tokens(block, lengths[static_cast<size_t>(piece)]).size();
      if (order->tokens > first)
        order->leaves.push_back({block * numbers_.lanes + lane,
                                 {first, order->tokens},
                                 block == 0 ? pieces : Range{},
                                 block * numbers_.lanes * numbers_.leaves + of_all});
    }
  return order;
}

}  // namespace adjoin::train
