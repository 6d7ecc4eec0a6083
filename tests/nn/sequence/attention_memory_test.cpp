#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "adjoin/movement/peak_memory.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

/// The most bytes that forward and backward have beside q, k and v.
int64_t peak_of_attention(const TokenRows& rows, const Communicator& world, const AttentionOptions& options) {
  std::vector<at::Tensor> x;
  for (int i = 0; i < 3; ++i) x.push_back(at::ones({rows.size(world.rank()), 2, 16}).requires_grad_());
  PeakMemory memory;
  memory.reset_peak();
  attention(x[0], x[1], x[2], rows, world, options).sum().backward();
  return memory.peak_bytes();
}

TEST(AttentionMemory, of_the_ring_follows_from_a_workers_own_rows) {
  constexpr int64_t kRowsEach = 600;  // two blocks of masks and dropout
  for (const double dropout : {0.0, 0.1}) {
    std::mutex mutex;
    std::map<int, int64_t> peaks;  // by the number of workers
    for_each_world({2, 4}, [&](const Communicator& world) {
      const int64_t bytes = peak_of_attention(TokenRows::balanced({kRowsEach * world.size()}, world.size()), world,
                                              {.dropout = dropout, .name = "a", .step = {.training = true}});
      const std::lock_guard lock(mutex);
      peaks[world.size()] = std::max(peaks[world.size()], bytes);
    });
    if (peaks.contains(2) && peaks.contains(4)) {
      EXPECT_LE(peaks[4], peaks[2] + 4096) << "dropout " << dropout;
    }
  }
}

}  // namespace
}  // namespace adjoin::nn
