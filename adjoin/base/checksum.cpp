#include "adjoin/base/checksum.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"

namespace adjoin {
namespace {

constexpr uint64_t kBlock = 1024;  // numbers, whose factors stay in the cache

constexpr std::array<uint32_t, kBlock> kFactors = [] {
  std::array<uint32_t, kBlock> factors{};
  for (uint64_t i = 0; i < kBlock; ++i) factors[i] = static_cast<uint32_t>(mix(i + 1)) | 1;
  return factors;
}();

template <class Number>
[[gnu::always_inline]] inline uint64_t sum_of(const char* numbers, uint64_t count, uint64_t first) {
  uint64_t sum = 0;
  for (uint64_t done = 0; done < count;) {
    const uint64_t block = (first + done) / kBlock, begin = (first + done) % kBlock;
    const uint64_t here = std::min(kBlock - begin, count - done);
    const char* from = numbers + done * sizeof(Number);
    const uint32_t* factors = kFactors.data() + begin;
    uint64_t of_block = 0;
    for (uint64_t i = 0; i < here; ++i) {
      Number number;  // a file's bytes are hashed too, at any alignment
      std::memcpy(&number, from + i * sizeof number, sizeof number);
      of_block += uint64_t{number} * factors[i];
    }
    sum += of_block * (mix(block + 1) | 1);
    done += here;
  }
  return sum;
}

[[gnu::always_inline]] inline uint64_t sum_of(const char* elements, uint64_t count, int64_t element_bytes,
                                              uint64_t first) {
  switch (element_bytes) {
    case 1:
      return sum_of<uint8_t>(elements, count, first);
    case 2:
      return sum_of<uint16_t>(elements, count, first);
    case 4:
      return sum_of<uint32_t>(elements, count, first);
    case 8:
      return sum_of<uint32_t>(elements, 2 * count, 2 * first);
    default:
      throw InternalError("checksum: expected elements of 1, 2, 4 or 8 bytes, got " + std::to_string(element_bytes));
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] uint64_t sum_avx2(const char* elements, uint64_t count, int64_t element_bytes, uint64_t first) {
  return sum_of(elements, count, element_bytes, first);
}
#endif

}  // namespace

uint64_t checksum(const void* elements, int64_t count, int64_t element_bytes, int64_t first, InstructionSet set) {
  const auto* bytes = static_cast<const char*>(elements);
  const auto numbers = static_cast<uint64_t>(count), begin = static_cast<uint64_t>(first);
#if defined(__x86_64__)
  // Also with AVX-512, for which compilers make a loop of less than half this one's speed.
  if (set != InstructionSet::baseline) return sum_avx2(bytes, numbers, element_bytes, begin);
#endif
  static_cast<void>(set);
  return sum_of(bytes, numbers, element_bytes, begin);
}

}  // namespace adjoin
