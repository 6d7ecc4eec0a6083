// mpirun -n 2 --bind-to none build/release/bench/bench_moves [rows columns times]
//
// Repartitions a float32 matrix from rows to columns by adjoin::Move and by MPI_Alltoallw on the same boxes, in turn, and
// prints the medians and the ratio of the two speeds.

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "adjoin/comm/launch.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/movement/move.hpp"

using namespace adjoin;

namespace {

/// The boxes of a repartition from rows to columns, as MPI's own types.
class Alltoallw {
 public:
  Alltoallw(const Split& rows, const Split& columns, int rank)
      : counts_(static_cast<size_t>(rows.parts()), 1), places_(counts_.size(), 0) {
    const auto subarray = [](const Split& a, int whole_a, const Split& b, int whole_b, int part_a, int part_b) {
      const int sizes[] = {whole_a, whole_b};
      const int box[] = {static_cast<int>(a.size(part_a)), static_cast<int>(b.size(part_b))};
      const int start[] = {whole_a == a.size() ? static_cast<int>(a.offset(part_a)) : 0,
                           whole_b == b.size() ? static_cast<int>(b.offset(part_b)) : 0};
      MPI_Datatype type;
      MPI_Type_create_subarray(2, sizes, box, start, MPI_ORDER_C, MPI_FLOAT, &type);
      MPI_Type_commit(&type);
      return type;
    };
    for (int peer = 0; peer < rows.parts(); ++peer) {
      sent_.push_back(
          subarray(rows, static_cast<int>(rows.size(rank)), columns, static_cast<int>(columns.size()), rank, peer));
      received_.push_back(
          subarray(rows, static_cast<int>(rows.size()), columns, static_cast<int>(columns.size(rank)), peer, rank));
    }
  }

  void operator()(const at::Tensor& in, const at::Tensor& out) const {
    MPI_Alltoallw(in.data_ptr(), counts_.data(), places_.data(), sent_.data(), out.data_ptr(), counts_.data(),
                  places_.data(), received_.data(), MPI_COMM_WORLD);
  }

 private:
  std::vector<int> counts_, places_;
  std::vector<MPI_Datatype> sent_, received_;
};

}  // namespace

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 4096, columns = argc > 2 ? std::atoll(argv[2]) : 4096;
  const int times = argc > 3 ? std::atoi(argv[3]) : 21;
  if (!started_by_mpi() || rows < 1 || columns < 1 || times < 1) {
    std::fprintf(stderr, "usage: mpirun -n RANKS bench_moves [rows columns times]\n");
    return 2;
  }
  launch_mpi([&](const Communicator& world) {
    const Grid grid(world, {{"ranks", world.size()}});
    const Split by_rows = Split::balanced(rows, world.size(), 0),
                by_columns = Split::balanced(columns, world.size(), 1);
    const Layout from(grid.shape(), {rows, columns}, {{by_rows, {"ranks"}}});
    const Layout to(grid.shape(), {rows, columns}, {{by_columns, {"ranks"}}});
    const Move move(from, to, grid);
    const Alltoallw alltoallw(by_rows, by_columns, world.rank());
    const at::Tensor in = at::ones(from.shape_of(grid.cell()));
    at::Tensor out = at::empty(to.shape_of(grid.cell()));
    const measure::Contender contenders[] = {{{[&] {
                                               out = at::Tensor();
                                               out = move(in);
                                             }}},
                                             {{[&] {
                                               out = at::Tensor();
                                               out = at::empty(to.shape_of(grid.cell()));
                                               alltoallw(in, out);
                                             }}}};
    const auto all = measure::time_in_turns(world, contenders, {.turns = times, .least_turns = times});
    const double ours = measure::median(all[0].all), theirs = measure::median(all[1].all);
    if (world.rank() == 0)
      std::printf("Move %.3f ms, MPI_Alltoallw %.3f ms: %.2f of its speed\n", 1e3 * ours, 1e3 * theirs, theirs / ours);
  });
}
