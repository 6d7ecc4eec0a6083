#include "adjoin/train/lanes.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/processes.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/contract/common_cause.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/task/same_bits.hpp"

namespace adjoin::train {

Lanes::Lanes(std::shared_ptr<const FixedOrder> order, const Grid& grid, int microbatches)
    : order_(std::move(order)),
      blocks_(order_->blocks.held[static_cast<size_t>(grid.coordinate("cp"))]),
      held_{std::make_shared<LaneGradients>(), {order_->numbers.all_lanes()}, {}},
      microbatches_(microbatches) {
  const GridShape& shape = grid.shape();
  const int along_experts = shape.axis_size("ep"), batch = shape.axis_size("replica") * along_experts;
  const auto lanes_of = [&](int rank) { return balanced_range(order_->numbers.lanes, batch, rank); };
  of_samples_ = lanes_of(batch_ranks(grid).rank());
  const int first_source = batch_ranks(grid).rank() - grid.coordinate("ep");
  for (int source = 0; source < along_experts; ++source) of_sources_.push_back(lanes_of(first_source + source));
  held_.ranks.resize(static_cast<size_t>(shape.cells()));
  for (int cell = 0; cell < shape.cells(); ++cell) {
    const std::vector<int> place = shape.coordinates(cell);
    const auto along = [&](const char* axis) { return place[static_cast<size_t>(shape.axis_index(axis))]; };
    // The experts' axis is the inner one of those of the batch.
    const int first = along("replica") * along_experts, last = first + along_experts - 1, cp = along("cp");
    held_.ranks[static_cast<size_t>(shape.rank_of(cell))] = {
        .held = in_blocks(lanes_of(first + along("ep")), cp),
        .of_sources = in_blocks({lanes_of(first).begin, lanes_of(last).end}, cp),
        .stage = along("pp")};
  }
}

std::vector<Range> Lanes::in_blocks(Range lanes, int cp) const {
  std::vector<Range> all;
  for (const int64_t block : order_->blocks.held[static_cast<size_t>(cp)]) {
    const int64_t first = block * order_->numbers.lanes;
    all.push_back({first + lanes.begin, first + lanes.end});
  }
  return all;
}

std::vector<Leaf> Lanes::leaves(int64_t samples, int number, Range lanes) const {
  const auto each = static_cast<int>(order_->numbers.leaves);
  const Range some = balanced_range(lanes.size() * each, microbatches_, number);
  std::vector<Leaf> leaves;
  for (int64_t i = lanes.begin * each + some.begin; i < lanes.begin * each + some.end; ++i) {
    const int64_t lane = i / each;
    const Range of_lane = balanced_range(samples, static_cast<int>(order_->numbers.lanes), static_cast<int>(lane));
    const Range leaf = balanced_range(of_lane.size(), each, static_cast<int>(i % each));
    leaves.push_back({lane, {}, {of_lane.begin + leaf.begin, of_lane.begin + leaf.end}, i});
  }
  return leaves;
}

data::BatchPart Lanes::part(int64_t samples, int number) const {
  const std::vector<Leaf> all = leaves(samples, number, of_samples_);
  if (all.empty()) return {samples, 0};
  return {all.front().samples.begin, all.back().samples.end - all.front().samples.begin};
}

std::optional<Lanes> lanes_of(const Configuration& configuration, const Grid& grid) {
  auto order = order_of(configuration);
  if (!order) return std::nullopt;
  return Lanes(std::move(order), grid, static_cast<int>(configuration.microbatches));
}

OrderedBatch batch_of_step(const Configuration& configuration, const Task& task, std::span<const int64_t> samples,
                           int number, const Step& step, const at::TensorOptions& tensor, const Grid& grid,
                           const std::optional<Lanes>& lanes) {
  const int64_t size = std::ssize(samples);
  const auto make = [&](const data::BatchPart& part) {
    return micro_batch_of(task, data::Part::train, samples, part, step, tensor, grid);
  };
  if (!lanes) return {make(part_of_batch(task, size, grid, number, static_cast<int>(parts_of_step(configuration))))};
  const WithOrder with_order(lanes->order());
  MicroBatch batch = make(lanes->part(size, number));
  auto order = lanes->order(size, number, batch);
  return {std::move(batch), std::move(order)};
}

std::vector<int64_t> Lanes::sums_kept(int64_t samples, bool is_of_experts) const {
  const std::vector<Range> sources = is_of_experts ? of_sources_ : std::vector<Range>{of_samples_};
  GrowingSums<char> sums(held_.tree, [](char, char) { return '+'; });
  std::vector<int64_t> kept;
  for (int number = 0; number < microbatches_; ++number) {
    for (int64_t row = 0; const Range& source : sources)
      for (const int64_t block : blocks_) {
        for (const Leaf& leaf : leaves(samples, number, source))
          sums.of(row, block * order_->numbers.lanes + leaf.lane, [] { return '0'; });
        ++row;
      }
    if (number + 1 == microbatches_) sums.complete();
    kept.push_back(std::ssize(sums.all()));
  }
  return kept;
}

void check_kernels(const std::vector<nn::fixed::KeptPromise>& kernels, const Communicator& world) {
  std::string mine = host_name();
  for (const auto& kernel : kernels)
    mine += kernel.broken > 0 ? "\nbroken" : "\n" + std::to_string(kernel.first_result);
  const std::vector<std::string> of_ranks = texts_of_all(mine, world);
  const std::vector<std::string_view> first = parts_of(of_ranks[0], '\n');
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const std::vector<std::string_view> results = parts_of(of_ranks[rank], '\n');
    const auto on_rank = [](size_t number, std::string_view host) {
      return "rank " + std::to_string(number) + " on " + std::string(host);
    };
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (results[i + 1] == "broken")
        throw Common<Error>("--same-bits: " + kernels[i].kernel + " change with what is computed beside them on " +
                            on_rank(rank, results[0]) + "; adjoin doctor --same-bits says more");
      if (results[i + 1] != first[i + 1])
        throw Common<Error>("--same-bits: " + kernels[i].kernel + " give other bits on " + on_rank(rank, results[0]) +
                            " than on " + on_rank(0, first[0]) + "; expected one type of processor and one LibTorch");
    }
  }
}

std::shared_ptr<const FixedOrder> Lanes::order(int64_t samples, int number, const MicroBatch& batch) const {
  const std::vector<int64_t>& lengths = batch.pass.rows.all().lengths();
  const data::BatchPart mine = part(samples, number);
  std::vector<int64_t> first_piece{0};
  for (int64_t i = 0; i < mine.count; ++i)
    first_piece.push_back(first_piece.back() + (batch.pieces.empty() ? 1 : batch.pieces[static_cast<size_t>(i)]));
  const auto order = std::make_shared<FixedOrder>(*order_);
  order->micro_batch = number;
  order->is_last = number + 1 == microbatches_;
  order->gradients = held_.gradients;
  const SameBits& numbers = order->numbers;
  for (const int64_t block : blocks_) {
    if (block == 0) order->samples = std::ssize(lengths);
    for (Leaf leaf : leaves(samples, number, of_samples_)) {
      const Range pieces{first_piece[static_cast<size_t>(leaf.samples.begin - mine.begin)],
                         first_piece[static_cast<size_t>(leaf.samples.end - mine.begin)]};
      leaf.tokens.begin = order->tokens;
      for (int64_t piece = pieces.begin; piece < pieces.end; ++piece)
        order->tokens += order->blocks.tokens(block, lengths[static_cast<size_t>(piece)]).size();
      leaf.tokens.end = order->tokens;
      leaf.samples = block == 0 ? pieces : Range{};
      leaf.lane += block * numbers.lanes;
      leaf.number += block * numbers.lanes * numbers.leaves;
      if (leaf.tokens.size() > 0) order->leaves.push_back(leaf);
    }
  }
  return order;
}

}  // namespace adjoin::train
