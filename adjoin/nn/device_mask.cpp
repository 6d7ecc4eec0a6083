#include "adjoin/nn/device_mask.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/philox_blocks.hpp"

namespace adjoin::nn {
namespace {

static_assert(std::endian::native == std::endian::little, "the lower half of a number comes first");

constexpr int64_t kWordsOfBlock = 2 * kPhiloxWords;
constexpr int64_t kSignBit = -32768;  // LibTorch compares words of 16 bits with their sign

/// The lower (0) or upper (1) halves of 64-bit numbers, as a view.
at::Tensor halves_of(const at::Tensor& x, int64_t which) {
  return x.view(at::kInt).unflatten(-1, {x.size(-1), 2}).select(-1, which);
}

/// What the host knows of each row, as columns on the device.
class RowWords {
 public:
  explicit RowWords(at::Device device) : device_(device) {}

  void add(uint32_t word) { words_.push_back(static_cast<int>(word)); }
  at::Tensor tensor(at::IntArrayRef sizes) const { return at::tensor(words_, at::kInt).to(device_).view(sizes); }

 private:
  at::Device device_;
  std::vector<int> words_;
};

}  // namespace

at::Tensor device_mask(at::Device device, int64_t rows, int64_t columns, uint16_t threshold,
                       const std::function<MaskRow(int64_t)>& words) {
  RowWords keys(device), places(device);  // of each round; row, volume and plane
  std::vector<MaskRow> all;
  for (int64_t r = 0; r < rows; ++r) all.push_back(words(r));
  const int64_t first = all.empty() ? 0 : all[0].first_column;
  for (const MaskRow& row : all)
    if (row.first_column != first) throw InternalError("device_mask: rows that begin at different columns");
  for (uint32_t round = 0; round < kPhiloxRounds; ++round) {
    for (const MaskRow& row : all) keys.add(row.key[0] + round * kPhiloxWeyl0);
    for (const MaskRow& row : all) keys.add(row.key[1] + round * kPhiloxWeyl1);
  }
  for (const auto member : {&MaskRow::row, &MaskRow::volume, &MaskRow::plane})
    for (const MaskRow& row : all) places.add(row.*member);

  // Of a block's four words c, those that are multiplied are in `even`, 64 bits each, whose upper halves stay 0.
  const int64_t skipped = first % kWordsOfBlock, blocks = (skipped + columns + kWordsOfBlock - 1) / kWordsOfBlock;
  const at::Tensor key = keys.tensor({kPhiloxRounds, 2, rows, 1}), place = places.tensor({3, rows, 1});
  const at::Tensor factors =
      at::tensor({int64_t{kPhiloxMultiplier0}, int64_t{kPhiloxMultiplier1}}, at::kLong).view({2, 1, 1}).to(device);
  const at::Tensor even = at::zeros({2, rows, blocks}, factors.options()), even_words = halves_of(even, 0);
  const at::Tensor c0 = even_words[0], c2 = even_words[1];
  c0.copy_(at::arange(blocks, at::kLong).add_(first / kWordsOfBlock).to(device));
  c2.copy_(place[2]);
  at::Tensor c1 = place[0], c3 = place[1];
  at::Tensor products[] = {at::empty_like(even), at::empty_like(even)};  // c1 and c3 are in that of the round before
  for (int round = 0; round < kPhiloxRounds; ++round) {
    at::Tensor& product = products[round % 2];
    at::mul_out(product, even, factors);
    const at::Tensor lower = halves_of(product, 0), upper = halves_of(product, 1);
    at::Tensor of_c0 = c0, of_c2 = c2;
    at::bitwise_xor_out(of_c0, upper[1], c1);
    at::bitwise_xor_out(of_c2, upper[0], c3);
    at::Tensor(even_words).bitwise_xor_(key[round]);
    c1 = lower[1];
    c3 = lower[0];
  }
  at::Tensor drawn = at::stack({c0, c1, c2, c3}, 2).view(at::kShort).flatten(1).narrow(1, skipped, columns);
  return drawn.bitwise_xor(kSignBit) >= static_cast<int64_t>(threshold) + kSignBit;
}

}  // namespace adjoin::nn
