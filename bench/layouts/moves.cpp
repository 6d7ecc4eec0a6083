#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/halo.hpp"
#include "adjoin/movement/move.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "bench/layouts/command.hpp"

namespace adjoin::bench {
namespace {

struct MovesOptions {
  SideBySideOptions run{.workers = {}, .times = 21};
  int64_t rows = 4096, columns = 4096;  // of a float32 matrix
};

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

/// Times a move of the matrix from rows to columns, beside at::empty_like(x).copy_(x) by one worker with the threads of all. On
/// a matrix of at most 256 x 256 it also times a prepared halo exchange of one row on each side, beside the bare exchange of
/// the same boxes with a copy of the interior into a new tensor.
std::vector<Comparison> bench_moves(const MovesOptions& options) {
  const int64_t ranks = options.run.workers.ranks();
  require(options.rows >= ranks && options.columns >= ranks, [&] {
    return "expected a matrix of at least " + std::to_string(ranks) + " rows and columns, one for each rank";
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

void run_moves(Command<MovesOptions>& c) {
  check_product({{"--rows", c.rows}, {"--columns", c.columns}}, kMost);
  const std::vector<Comparison> results = bench_moves(c);
  if (!prints()) return;
  const auto &repartition = results[0].results, &halo = results[1].results;
  Report report{c.json};
  for (const Comparison& result : results) report.text << text_of(result.results[0].name, result);
  report.json = {{"repartition_seconds", repartition[0].forward},
                 {"copy_seconds", repartition[1].forward},
                 {"halo_seconds", halo[0].forward},
                 {"raw_halo_seconds", halo[1].forward}};
  report.print();
}

}  // namespace

void add_moves(Program& program) {
  const auto c = std::make_shared<Command<MovesOptions>>();
  add_bench(program, "moves", "Time a repartition and a halo exchange, and bare copies and messages", c, run_moves,
            {number("--rows", c->rows, "Rows of the float32 matrix"), number("--columns", c->columns, "Its columns")},
            "one JSON object: repartition_seconds, copy_seconds, halo_seconds, raw_halo_seconds", /*least_times=*/1);
}

}  // namespace adjoin::bench
