#include "adjoin/base/checksum.hpp"

#include <cstring>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"

namespace adjoin {
namespace {

constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15u;

template <class Bits>
[[gnu::always_inline]] inline uint64_t sum_of(const void* elements, int64_t count, uint64_t first) {
  const auto* bytes = static_cast<const char*>(elements);
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;  // of a file's bytes too, which lie anywhere
    std::memcpy(&bits, bytes + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    sum += mix(bits + (first + static_cast<uint64_t>(i) + 1) * kGoldenRatio);
  }
  return sum;
}

[[gnu::always_inline]] inline uint64_t sum_of(const void* elements, int64_t count, int64_t element_bytes,
                                              uint64_t first) {
  switch (element_bytes) {
    case 1:
      return sum_of<uint8_t>(elements, count, first);
    case 2:
      return sum_of<uint16_t>(elements, count, first);
    case 4:
      return sum_of<uint32_t>(elements, count, first);
    case 8:
      return sum_of<uint64_t>(elements, count, first);
    default:
      throw InternalError("checksum: elements of " + std::to_string(element_bytes) + " bytes");
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] uint64_t sum_avx2(const void* elements, int64_t count, int64_t element_bytes, uint64_t first) {
  return sum_of(elements, count, element_bytes, first);
}
[[gnu::target("avx512f,avx512dq,avx512vl")]] uint64_t sum_avx512(const void* elements, int64_t count,
                                                                 int64_t element_bytes, uint64_t first) {
  return sum_of(elements, count, element_bytes, first);
}
#endif

}  // namespace

uint64_t checksum(const void* elements, int64_t count, int64_t element_bytes, int64_t first, InstructionSet set) {
  const auto begin = static_cast<uint64_t>(first);
#if defined(__x86_64__)
  if (set == InstructionSet::avx2) return sum_avx2(elements, count, element_bytes, begin);
  if (set == InstructionSet::avx512) return sum_avx512(elements, count, element_bytes, begin);
#endif
  static_cast<void>(set);
  return sum_of(elements, count, element_bytes, begin);
}

}  // namespace adjoin
