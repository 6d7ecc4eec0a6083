#include "adjoin/train/bench/moves.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/movement/halo.hpp"
#include "adjoin/movement/move.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::train {
namespace {

using Work = std::function<void()>;

/// The medians of two pieces of work in turn, `repeats` of each at once; all ranks begin and end together.
std::array<double, 2> in_turn(int64_t times, int64_t repeats, const Communicator& world, const Work& a, const Work& b) {
  std::array<std::vector<double>, 2> seconds;
  for (int64_t i = 0; i <= times; ++i)
    for (size_t which = 0; which < 2; ++which) {
      measure::let_threads_sleep(world);
      which == 0 ? a() : b();
      world.barrier();
      const auto begin = std::chrono::steady_clock::now();
      for (int64_t n = 0; n < repeats; ++n) which == 0 ? a() : b();
      world.barrier();
      const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (i > 0) seconds[which].push_back(taken / static_cast<double>(repeats));
    }
  return {measure::median(seconds[0]), measure::median(seconds[1])};
}

Layout cut(const Grid& grid, const std::vector<int64_t>& shape, int64_t dim) {
  return Layout(grid.shape(), shape,
                {{Split::balanced(shape[static_cast<size_t>(dim)], grid.shape().cells(), dim), {"ranks"}}});
}

std::array<double, 2> time_repartition(const BenchMovesOptions& options, const Grid& grid) {
  const Communicator& world = grid.world();
  const std::vector<int64_t> shape{options.rows, options.columns};
  const Layout rows = cut(grid, shape, 0), columns = cut(grid, shape, 1);
  const Move move(rows, columns, grid);
  const at::Tensor mine = at::ones(rows.shape_of(grid.cell()));
  const at::Tensor all = world.rank() == 0 ? at::ones(shape) : at::Tensor();
  const int threads = at::get_num_threads();
  const auto copy = [&] {
    if (world.rank() != 0) return;
    at::set_num_threads(threads * world.size());
    at::empty_like(all).copy_(all);
    at::set_num_threads(threads);
  };
  return in_turn(
      options.times, 1, world, [&] { move(mine); }, copy);
}

/// Rank r's neighbours are r - 1 and r + 1; each sends its outer rows into the other's ghosts.
std::array<double, 2> time_halo(const BenchMovesOptions& options, const Grid& grid) {
  const Communicator& world = grid.world();
  const std::vector<int64_t> shape{options.rows, options.columns};
  const Layout rows = cut(grid, shape, 0);
  const HaloExchange exchange(rows, {Window{.kernel = 3, .before = 1, .after = 1}, Window{}}, Padding::replicate, grid);
  const at::Tensor mine = at::ones(rows.shape_of(grid.cell()));
  const bool has_above = world.rank() > 0, has_below = world.rank() + 1 < world.size();
  const int64_t interior = mine.size(0), first = has_above ? 1 : 0;
  const auto raw = [&] {
    const at::Tensor result = at::empty({interior + has_above + has_below, options.columns});
    result.narrow(0, first, interior).copy_(mine);
    std::vector<Message> messages;
    const auto post = [&](Message::Kind kind, int peer, const at::Tensor& row) {
      messages.push_back({.kind = kind, .peer = peer, .buffer = buffer(row)});
    };
    if (has_above) {
      post(Message::Kind::receive, world.rank() - 1, result[0]);
      post(Message::Kind::send, world.rank() - 1, mine[0]);
    }
    if (has_below) {
      post(Message::Kind::receive, world.rank() + 1, result[-1]);
      post(Message::Kind::send, world.rank() + 1, mine[-1]);
    }
    world.exchange(messages);
  };
  const Move fetch = exchange.fetch();
  return in_turn(
      options.times, 20, world, [&] { fetch(mine); }, raw);
}

}  // namespace

BenchMovesResult bench_moves(const BenchMovesOptions& options) {
  const int64_t ranks = options.workers.plan.ranks();
  require(options.rows >= ranks && options.columns >= ranks && options.times >= 1, [&] {
    return "bench moves: expected a matrix of at least " + std::to_string(ranks) +
           " rows and columns, one for each rank, and at least one measurement";
  });
  BenchMovesResult result;
  run_workers(options.workers, [&](const Communicator& world) {
    const at::NoGradGuard no_gradient;
    const Grid grid(world, {{"ranks", world.size()}});
    const auto [repartition, copy] = time_repartition(options, grid);
    const BenchMovesOptions small{.workers = options.workers,
                                  .rows = std::max<int64_t>(ranks, std::min<int64_t>(options.rows, 256)),
                                  .columns = std::min<int64_t>(options.columns, 256),
                                  .times = options.times};
    const auto [halo, raw_halo] = time_halo(small, grid);
    if (speaks_for_process(world)) result = {repartition, copy, halo, raw_halo};
  });
  return result;
}

}  // namespace adjoin::train
