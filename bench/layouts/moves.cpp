#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/halo.hpp"
#include "adjoin/movement/move.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/train/bench/benches.hpp"

namespace adjoin::train {
namespace {

using Shape = std::vector<int64_t>;

Layout cut(const Grid& grid, const Shape& shape, int64_t dim) {
  return Layout(grid.shape(), shape,
                {{Split::balanced(shape[static_cast<size_t>(dim)], grid.shape().cells(), dim), {"ranks"}}});
}

/// A pass of `work` on the rank's rows of a matrix of ones, without gradients.
Pass pass_over_rows(const Shape& shape, const Grid& grid, std::function<void(const at::Tensor& mine)> work) {
  return {[work = std::move(work), mine = at::ones(cut(grid, shape, 0).shape_of(grid.cell()))] {
    const at::NoGradGuard no_gradient;
    work(mine);
  }};
}

Pass repartition(const Shape& shape, const Grid& grid) {
  const auto move = std::make_shared<Move>(cut(grid, shape, 0), cut(grid, shape, 1), grid);
  return pass_over_rows(shape, grid, [move](const at::Tensor& mine) { (*move)(mine); });
}

/// Rank r's neighbours are r - 1 and r + 1; each sends its outer rows into the other's ghosts.
Pass halo(const Shape& shape, const Grid& grid) {
  const HaloExchange exchange(cut(grid, shape, 0), {Window{.kernel = 3, .before = 1, .after = 1}, Window{}},
                              Padding::replicate, grid);
  return pass_over_rows(shape, grid, [fetch = exchange.fetch()](const at::Tensor& mine) { fetch(mine); });
}

Pass bare_halo(const Shape& shape, const Grid& grid) {
  return pass_over_rows(shape, grid, [world = grid.world()](const at::Tensor& mine) {
    const bool has_above = world.rank() > 0, has_below = world.rank() + 1 < world.size();
    const at::Tensor result = at::empty({mine.size(0) + has_above + has_below, mine.size(1)});
    result.narrow(0, has_above ? 1 : 0, mine.size(0)).copy_(mine);
    std::vector<Message> messages;
    const auto trade = [&](int peer, int64_t row) {
      messages.push_back({.kind = Message::Kind::receive, .peer = peer, .buffer = buffer(result[row])});
      messages.push_back({.kind = Message::Kind::send, .peer = peer, .buffer = buffer(mine[row])});
    };
    if (has_above) trade(world.rank() - 1, 0);
    if (has_below) trade(world.rank() + 1, -1);
    world.exchange(messages);
  });
}

}  // namespace

std::vector<Comparison> bench_moves(const BenchMovesOptions& options) {
  const int64_t ranks = options.run.workers.grid.ranks();
  require(options.rows >= ranks && options.columns >= ranks, [&] {
    return "bench moves: expected a matrix of at least " + std::to_string(ranks) +
           " rows and columns, one for each rank";
  });
  const Shape shape{options.rows, options.columns};
  const Shape small{std::max(ranks, std::min<int64_t>(options.rows, 256)), std::min<int64_t>(options.columns, 256)};
  const auto on_grid = [](Pass (*pass)(const Shape&, const Grid&), const Shape& of) {
    return [=](const Communicator& world) { return pass(of, Grid(world, {{"ranks", world.size()}})); };
  };
  const auto copy = [&](const Communicator&) { return Pass{[x = at::ones(shape)] { at::empty_like(x).copy_(x); }}; };
  return side_by_side(options.run, {{{"repartition", on_grid(repartition, shape)}, {"copying", copy, true}},
                                    {{"halo exchange", on_grid(halo, small)},
                                     {"bare messages and a copy", on_grid(bare_halo, small)}}});
}

}  // namespace adjoin::train
