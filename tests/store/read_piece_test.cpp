#include "adjoin/store/read_piece.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "adjoin/base/checksum.hpp"
#include "adjoin/lab/silent_backend.hpp"
#include "adjoin/store/safetensors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

using test::TemporaryFolder;

/// What this process has read with system calls so far.
int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string key;
  int64_t value = 0;
  while (file >> key >> value)
    if (key == "rchar:") return value;
  return -1;
}

/// Of a tensor x, on the lone rank of a world of so many.
nn::Parameter piece_of(int rank, int ranks, std::vector<int64_t> shape, std::vector<Layout::Cut> cuts,
                       at::ScalarType type = at::kFloat) {
  const Grid grid(Communicator(std::make_shared<lab::SilentBackend>(rank, ranks)), {{"a", ranks}});
  const Layout layout(grid.shape(), std::move(shape), std::move(cuts));
  const at::Tensor tensor = at::full(layout.shape_on(rank), -1, type);
  return {"x", tensor, layout, grid, {}};
}

at::Tensor counting(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape)).view(shape).to(at::kFloat);
}

TEST(ReadPiece, reads_no_more_than_the_piece_and_gaps_below_64_KiB) {
  const TemporaryFolder folder;
  constexpr int64_t kSlack = 4096;  // for reading how much was read
  const struct {
    int64_t rows, columns;
    int dim;
    int64_t expected;                        // bytes
  } cases[] = {{64, 65536, 1, 64 * 131072},  // half a row is 128 KiB, and so is the gap
               {64, 16384, 1, 64 * 65536},   // each half row that is read is followed by a gap, but for the last
               {64, 16384, 0, 64 * 16384 * 2},
               {64, 2 * 16384, 1, 64 * 65536}};  // gaps of 64 KiB, which are skipped
  for (const auto& [rows, columns, dim, expected] : cases) {
    const at::Tensor x = counting({rows, columns});
    write_safetensors(folder / "x", {{"x", x}});
    const SafetensorsFile file(folder / "x");
    const nn::Parameter piece =
        piece_of(1, 2, {rows, columns}, {{Split::balanced(dim == 0 ? rows : columns, 2, dim), {"a"}}});
    const int64_t before = bytes_read();
    read_piece(file, piece);
    const int64_t bytes = bytes_read() - before;
    EXPECT_GE(bytes, piece.tensor.numel() * 4);
    EXPECT_LE(bytes, expected + kSlack) << rows << " x " << columns << " along " << dim;
    EXPECT_TRUE(piece.tensor.equal(x.chunk(2, dim)[1]));
  }
}

TEST(ReadPiece, counts_the_sums_of_all_pieces_to_that_of_the_tensor_whatever_the_cut_and_copies) {
  const TemporaryFolder folder;
  const std::vector<int64_t> shape{13, 7, 5};
  const at::Tensor x = counting(shape);
  write_safetensors(folder / "x", {{"x", x}});
  const SafetensorsFile file(folder / "x");
  const uint64_t expected = checksum(x.const_data_ptr(), x.numel(), 4, 0);
  const std::vector<std::vector<Range>> odd{{{9, 13}, {0, 2}}, {{2, 9}}, {}};
  const std::vector<std::vector<Layout::Cut>> layouts{{},
                                                      {{Split::balanced(13, 3, 0), {"a"}}},
                                                      {{Split::balanced(7, 3, 1), {"a"}}},
                                                      {{Split::balanced(5, 3, 2), {"a"}}},
                                                      {{Split::of_ranges(odd, 13, 0), {"a"}}}};
  for (const auto& cuts : layouts) {
    uint64_t sum = 0;
    for (int rank = 0; rank < 3; ++rank) sum += read_piece(file, piece_of(rank, 3, shape, cuts));
    EXPECT_EQ(sum, expected);
  }
}

TEST(ReadPiece, gives_numbers_of_another_type) {
  const TemporaryFolder folder;
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    const at::Tensor x = counting({3, 4}).to(type);
    write_safetensors(folder / "x", {{"x", x}});
    const nn::Parameter piece = piece_of(0, 1, {3, 4}, {}, at::kDouble);
    read_piece(SafetensorsFile(folder / "x"), piece);
    EXPECT_TRUE(at::equal(piece.tensor, x.to(at::kDouble))) << type;
  }
}

TEST(ReadPiece, stacks_tensors_of_different_types) {
  const TemporaryFolder folder;
  const at::Tensor q = counting({6, 4}).to(at::kBFloat16), k = -counting({3, 4}).to(at::kHalf),
                   v = 0.1 * counting({3, 4}), all = at::cat({q, k, v});
  write_safetensors(folder / "parts", {{"q", q}, {"k", k}, {"v", v}});
  write_safetensors(folder / "whole", {{"x", all}});
  const auto file = std::make_shared<const SafetensorsFile>(folder / "parts");
  const SafetensorsFile whole(folder / "whole");
  const StackedTensor stacked{{{file, "q"}, {file, "k"}, {file, "v"}}};
  EXPECT_EQ(stacked.dtype(), at::kFloat);
  EXPECT_TRUE(read(stacked).equal(all));
  const std::vector<std::vector<Range>> heads{{{0, 3}, {6, 8}, {9, 11}}, {{3, 6}, {8, 9}, {11, 12}}};
  for (const Split& split : {Split::balanced(12, 2, 0), Split::balanced(4, 2, 1), Split::of_ranges(heads, 12, 0)})
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
      for (int rank = 0; rank < 2; ++rank) {
        const nn::Parameter piece = piece_of(rank, 2, {12, 4}, {{split, {"a"}}}, type),
                            expected = piece_of(rank, 2, {12, 4}, {{split, {"a"}}}, type);
        read_piece(stacked, piece);
        read_piece(whole, expected);
        EXPECT_TRUE(piece.tensor.equal(expected.tensor)) << piece.tensor << expected.tensor;
      }
}

}  // namespace
}  // namespace adjoin::train
