#include "adjoin/base/philox.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "adjoin/base/philox_blocks.hpp"

namespace adjoin {
namespace {

// The known answers that Random123, the authors' library, publishes in its file kat_vectors.
TEST(Philox, gives_the_known_answers_of_its_authors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, keys_differ_by_seed_and_by_name) {
  EXPECT_EQ(philox_key(1, "blocks.0"), philox_key(1, "blocks.0"));
  EXPECT_NE(philox_key(1, "blocks.0"), philox_key(2, "blocks.0"));
  EXPECT_NE(philox_key(1, "blocks.0"), philox_key(1, "blocks.1"));
}

TEST(Philox, a_row_is_made_of_the_words_of_its_blocks) {
  const PhiloxKey key = philox_key(7, "row");
  std::vector<uint16_t> row(1000);
  philox_row(row, key, 0, 5, 6, 7);
  for (uint32_t i = 0; i < row.size(); ++i) {
    const uint32_t word = philox({i / 8, 5, 6, 7}, key)[i % 8 / 2];
    ASSERT_EQ(row[i], static_cast<uint16_t>(i % 2 ? word >> 16 : word)) << "column " << i;
  }
}

TEST(Philox, blocks_are_the_same_with_every_instruction_set) {
  const PhiloxKey key = philox_key(7, "blocks");
  const PhiloxCounter first{0xFFFFFFFA, 0x80000001, 6, 7};  // the first word wraps around
  for (const InstructionSet set : kInstructionSets) {
    if (!is_supported(set)) continue;
    uint32_t words[kPhiloxLanes * kPhiloxWords];
    philox_blocks(set, words, first, key);
    for (uint32_t i = 0; i < kPhiloxLanes; ++i)
      for (uint32_t w = 0; w < kPhiloxWords; ++w)
        ASSERT_EQ(words[kPhiloxWords * i + w], philox({first[0] + i, first[1], first[2], first[3]}, key)[w])
            << "word " << w << " of block " << i << ", instruction set " << static_cast<int>(set);
  }
}

TEST(Philox, any_piece_of_a_row_equals_that_piece_of_the_whole) {
  const PhiloxKey key = philox_key(7, "row");
  std::vector<uint16_t> whole(777);
  philox_row(whole, key, 0, 1, 2, 3);
  for (const size_t first : {0u, 1u, 7u, 8u, 127u, 128u, 300u})
    for (const size_t count : {0u, 1u, 9u, 130u, 400u}) {
      std::vector<uint16_t> piece(count);
      philox_row(piece, key, static_cast<uint32_t>(first), 1, 2, 3);
      ASSERT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<long>(first)))
          << count << " words from " << first;
    }
}

TEST(Philox, normal_numbers_have_the_moments_of_the_normal_distribution_in_any_piece) {
  std::vector<double> x(200'000);
  philox_normal(x, philox_key(1, "weights"), 0);
  double mean = 0, square = 0, fourth = 0;
  for (const double v : x) mean += v, square += v * v, fourth += v * v * v * v;
  const auto n = static_cast<double>(x.size());
  // Five standard errors: 1, sqrt(2) and sqrt(96) over sqrt(n).
  EXPECT_NEAR(mean / n, 0.0, 5 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1.0, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3.0, 5 * std::sqrt(96 / n));
  std::vector<double> piece(11);
  philox_normal(piece, philox_key(1, "weights"), 1003);
  for (size_t i = 0; i < piece.size(); ++i) EXPECT_EQ(piece[i], x[1003 + i]);
}

}  // namespace
}  // namespace adjoin
