#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "adjoin/linalg/matmul.hpp"
#include "adjoin/movement/peak_memory.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::linalg {
namespace {

using namespace adjoin::testing;

constexpr int64_t kRows = 512, kFeatures = 96, kChunk = 8, kItem = sizeof(float);
constexpr int64_t kSlack = 4096;  // the allocator's rounding, and small tensors

/// The most bytes that `work` had beside its result and what was there before.
template <class Work>
int64_t bytes_beside_result(const Work& work) {
  PeakMemory memory;
  const int64_t before = memory.current_bytes();
  memory.reset_peak();
  const auto result = work();
  return memory.peak_bytes() - memory.current_bytes() - before;
}

/// A chunk's block: `chunk` rows of each rank (nt) or features of all rows (nn, tn). Between hosts there are two.
int64_t block_bytes(bool is_nt, const Communicator& world) {
  const int64_t blocks = world.backend()->spans_hosts() ? 2 : 1;
  return blocks * (is_nt ? world.size() * kChunk * kFeatures : kRows * kChunk) * kItem;
}

TEST(MatmulMemory, is_one_block_of_a_chunk_beside_the_result) {
  for_each_world({2, 4}, [](const Communicator& world) {
    const Split rows = Split::balanced(kRows, world.size(), 0);
    const int64_t mine = rows.size(world.rank());
    const at::Tensor narrow = at::ones({mine, kFeatures}), wide = at::ones({mine, kRows});
    const auto nt = [&] { return matmul_nt(narrow, narrow, world, rows, kChunk); };
    const auto nn = [&] { return matmul_nn(wide, narrow, world, rows, kChunk); };
    const auto tn = [&] { return matmul_tn(wide, narrow, world, rows, kChunk); };
    EXPECT_LE(bytes_beside_result(nt), block_bytes(true, world) + kSlack);
    EXPECT_LE(bytes_beside_result(nn), block_bytes(false, world) + kSlack);
    EXPECT_LE(bytes_beside_result(tn), block_bytes(false, world) + kSlack);
    // So much less than the whole of right, which the chunk keeps from being there at once.
    EXPECT_LT(block_bytes(true, world) + kSlack, kRows * kFeatures * kItem / 4);
  });
}

TEST(MatmulMemory, is_bounded_backward_and_where_gradients_are_expanded) {
  for_each_world({2, 4}, [](const Communicator& world) {
    const Split rows = Split::balanced(kRows, world.size(), 0);
    const int64_t mine = rows.size(world.rank());
    const at::Tensor narrow = at::ones({mine, kFeatures}).requires_grad_(), other = narrow.detach().clone();
    const at::Tensor wide = at::ones({mine, kRows}).requires_grad_();
    // nt's gradients are products of features; nn's and tn's of left are of rows, of right of features. Of what is
    // expanded a copy is made by blocks, of as many elements as a block of the result has.
    const int64_t copy = mine * kChunk * kItem;
    const int64_t most = std::max(block_bytes(true, world), block_bytes(false, world)) + copy + kSlack;
    const auto expect_bounded = [&](const at::Tensor& y, const std::vector<at::Tensor>& inputs) {
      const at::Tensor ones = at::ones({}).expand_as(y);
      EXPECT_LE(bytes_beside_result([&] { return torch::autograd::grad({y}, inputs, {ones}); }), most);
    };
    expect_bounded(matmul_nt(narrow, other.requires_grad_(), world, rows, kChunk), {narrow, other});
    expect_bounded(matmul_nn(wide, narrow, world, rows, kChunk), {wide, narrow});
    expect_bounded(matmul_tn(wide, narrow, world, rows, kChunk), {wide, narrow});
  });
}

}  // namespace
}  // namespace adjoin::linalg
