// adjoin.h from C++, without LibTorch's headers: two threads train one network on uneven blocks. Then one leaves out a call, and the other
// is told so. Prints the last loss and what was told.

#include <array>
#include <cstdio>

#include "adjoin.h"

namespace {

constexpr int kColumns = 5;

struct Rank {
  double loss = -1;
  int code = ADJOIN_OK;
};

/// A rank's rows of a field of 6 rows.
adjoin_array rows_of(double* field, const int64_t* starts, const int64_t* sizes) {
  return {sizeof(adjoin_array),
          field + starts[0] * kColumns,
          ADJOIN_FLOAT64,
          2,
          {sizes[0], kColumns},
          {kColumns, 1},
          -1,
          -1,
          0,
          0};
}

int train(adjoin_world world, void* user) {
  int32_t rank = 0;
  adjoin_world_rank(world, &rank, nullptr);
  Rank& mine = (*static_cast<std::array<Rank, 2>*>(user))[static_cast<size_t>(rank)];
  const int64_t shape[] = {6, kColumns}, starts[] = {rank == 0 ? 0 : 4, 0}, sizes[] = {rank == 0 ? 4 : 2, kColumns};
  std::array<double, 6 * kColumns> field{}, target{};
  for (size_t i = 0; i < field.size(); ++i) {
    field[i] = static_cast<double>(i * 37 % 11) / 5 - 1;
    target[i] = field[i] / 2;
  }
  const adjoin_array in = rows_of(field.data(), starts, sizes), out = rows_of(target.data(), starts, sizes);
  adjoin_blocks blocks = 0;
  adjoin_network network = 0;
  adjoin_pass pass = 0;
  const auto note = [&](int code) { mine.code = mine.code == ADJOIN_OK ? code : mine.code; };
  note(adjoin_blocks_create(world, ADJOIN_ROWS_FIRST, 2, shape, starts, sizes, &blocks));
  note(adjoin_network_create(blocks, R"({"inputs": 1, "layers": [{"type": "conv", "out": 1}]})", ADJOIN_FLOAT64, 1,
                             &network));
  note(adjoin_network_optimizer(network, R"({"rule": "sgd", "rate": 0.1})"));
  for (int step = 0; step < 3; ++step) {
    note(adjoin_forward(network, 1, &in, 0, nullptr, 0, &pass));
    note(adjoin_loss(pass, "mse", 0, 1, &out, nullptr, &mine.loss));
    note(adjoin_backward(&pass, 0, nullptr, 0, nullptr));
    note(adjoin_step(network, -1, nullptr, nullptr));
  }
  if (rank == 0) note(adjoin_infer(network, 1, &in, 0, nullptr));
  return 0;
}

}  // namespace

int main() {
  std::array<Rank, 2> ranks;
  const int code = adjoin_run_threads(2, train, &ranks);
  const bool are_equal = ranks[0].loss == ranks[1].loss;
  std::printf("%s losses, rank 0 is told %d, rank 1 %d, all %d\n", are_equal ? "equal" : "other", ranks[0].code,
              ranks[1].code, code);
}
