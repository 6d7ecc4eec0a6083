#include "adjoin/base/checksum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "adjoin/base/hash.hpp"

namespace adjoin {
namespace {

std::vector<uint8_t> some_bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(mix(i + 1));
  return bytes;
}

TEST(Checksum, of_parts_adds_up_to_that_of_the_whole_on_each_instruction_set) {
  const std::vector<uint8_t> bytes = some_bytes(8 * 2001 + 1);
  for (const int64_t size : {1, 2, 4, 8}) {
    const int64_t count = 2001;
    const uint8_t* data = bytes.data() + 1;  // of no alignment
    const uint64_t whole = checksum(data, count, size, 0, InstructionSet::baseline);
    for (const InstructionSet set : kInstructionSets) {
      if (!is_supported(set)) continue;
      for (const int64_t cut : {int64_t{0}, int64_t{1}, int64_t{500}, int64_t{1024}, count}) {
        const uint64_t parts =
            checksum(data, cut, size, 0, set) + checksum(data + cut * size, count - cut, size, cut, set);
        EXPECT_EQ(parts, whole) << size << " bytes, cut at " << cut;
      }
    }
  }
}

TEST(Checksum, is_another_where_a_bit_is_or_where_elements_stand_elsewhere) {
  std::vector<uint8_t> bytes = some_bytes(256);
  const uint64_t whole = checksum(bytes.data(), 64, 4, 0);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    EXPECT_NE(checksum(bytes.data(), 64, 4, 0), whole) << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
  }
  EXPECT_NE(checksum(bytes.data(), 64, 4, 1), whole);
  std::swap_ranges(bytes.begin(), bytes.begin() + 4, bytes.begin() + 100);
  EXPECT_NE(checksum(bytes.data(), 64, 4, 0), whole);
}

TEST(Checksum, is_another_where_a_block_stands_in_place_of_another_or_is_empty) {
  std::vector<uint8_t> bytes = some_bytes(16 * 4096);
  const uint64_t whole = checksum(bytes.data(), 16 * 1024, 4, 0);
  for (size_t a = 0; a < 16; ++a)
    for (size_t b = 0; b < a; ++b) {
      std::vector<uint8_t> other = bytes;
      const auto at = [&](size_t block) { return other.begin() + static_cast<int64_t>(block) * 4096; };
      std::swap_ranges(at(a), at(a) + 4096, at(b));
      EXPECT_NE(checksum(other.data(), 16 * 1024, 4, 0), whole) << a << " and " << b;
      std::fill(at(a), at(a) + 4096, uint8_t{0});
      EXPECT_NE(checksum(other.data(), 16 * 1024, 4, 0), whole) << a;
    }
}

// A sum that is in files never changes: it is computed here by the formula, in Python's integers:
//   def mix(x): x=((x^x>>30)*0xbf58476d1ce4e5b9)%2**64; x=((x^x>>27)*0x94d049bb133111eb)%2**64; return x^x>>31
//   sum(n*(mix(i%1024+1)%2**32|1)*(mix(i//1024+1)|1) for i, n in enumerate(range(1, 2501))) % 2**64
TEST(Checksum, is_what_the_formula_says) {
  std::vector<uint32_t> numbers(2500);
  std::iota(numbers.begin(), numbers.end(), 1);
  EXPECT_EQ(checksum(numbers.data(), 2500, 4, 0), 0x326da365f7a7f40au);
  EXPECT_EQ(checksum(numbers.data(), 1250, 8, 0), 0x326da365f7a7f40au);
}

}  // namespace
}  // namespace adjoin
