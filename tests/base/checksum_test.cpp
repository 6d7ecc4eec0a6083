#include "adjoin/base/checksum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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
  const std::vector<uint8_t> bytes = some_bytes(8 * 1001 + 1);
  for (const int64_t size : {1, 2, 4, 8}) {
    const int64_t count = 1001;
    const uint8_t* data = bytes.data() + 1;  // of no alignment
    const uint64_t whole = checksum(data, count, size, 0, InstructionSet::baseline);
    for (const InstructionSet set : kInstructionSets) {
      if (!is_supported(set)) continue;
      for (const int64_t cut : {int64_t{0}, int64_t{1}, int64_t{500}, count}) {
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

// A sum that is in files never changes: it is computed here by the formula, in Python's integers:
//   def mix(x): x=((x^x>>30)*0xbf58476d1ce4e5b9)%2**64; x=((x^x>>27)*0x94d049bb133111eb)%2**64; return x^x>>31
//   sum(mix((b+(i+1)*0x9e3779b97f4a7c15)%2**64) for i, b in enumerate([1, 2, 3])) % 2**64
TEST(Checksum, is_what_the_formula_says) {
  const std::vector<uint32_t> numbers{1, 2, 3};
  EXPECT_EQ(checksum(numbers.data(), 3, 4, 0), 0xedbe5ca3654f5804u);
}

}  // namespace
}  // namespace adjoin
