#include "adjoin/base/philox_blocks.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace adjoin {
namespace {

void blocks_baseline(uint32_t* out, PhiloxCounter counter, const PhiloxKey& key) {
  for (int i = 0; i < kPhiloxLanes; ++i, ++counter[0]) {
    const PhiloxCounter words = philox(counter, key);
    std::memcpy(out + 4 * i, words.data(), sizeof words);
  }
}

#if defined(__x86_64__)

// Vectors of 64-bit lanes, each with a word of a counter in its lower half. The multiplication of 32 bits by 32 reads only that
// half, so the upper halves may hold anything. Compilers do not find this form: they multiply 64 bits by 64.
struct Avx2 {
  typedef uint64_t Vector [[gnu::vector_size(32)]];
  static constexpr Vector kPlaces{0, 1, 2, 3};
  [[gnu::target("avx2")]] static void multiply(Vector& product, const Vector& x, uint64_t factor) {
    product = reinterpret_cast<Vector>(
        _mm256_mul_epu32(reinterpret_cast<__m256i>(x), _mm256_set1_epi64x(static_cast<int64_t>(factor))));
  }
};

struct Avx512 {
  typedef uint64_t Vector [[gnu::vector_size(64)]];
  static constexpr Vector kPlaces{0, 1, 2, 3, 4, 5, 6, 7};
  // With a mask of all lanes, as GCC 12 warns about the form without a mask.
  [[gnu::target("avx512f")]] static void multiply(Vector& product, const Vector& x, uint64_t factor) {
    product = reinterpret_cast<Vector>(
        _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(x), _mm512_set1_epi64(static_cast<int64_t>(factor))));
  }
};

/// Several vectors at once, as each step of one vector waits for the step before.
template <class Set>
[[gnu::always_inline]] inline void blocks_of(uint32_t* out, const PhiloxCounter& counter, PhiloxKey key) {
  using Vector = typename Set::Vector;
  constexpr int kLanes = sizeof(Vector) / sizeof(uint64_t), kVectors = kPhiloxLanes / kLanes;
  Vector c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    c0[i] = Set::kPlaces + (counter[0] + static_cast<uint64_t>(i * kLanes));
    c1[i] = Vector{} + counter[1];
    c2[i] = Vector{} + counter[2];
    c3[i] = Vector{} + counter[3];
  }
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int i = 0; i < kVectors; ++i) {
      Vector product0, product1;
      Set::multiply(product0, c0[i], kPhiloxMultiplier0);
      Set::multiply(product1, c2[i], kPhiloxMultiplier1);
      c0[i] = (product1 >> 32) ^ c1[i] ^ key[0];
      c1[i] = product1;
      c2[i] = (product0 >> 32) ^ c3[i] ^ key[1];
      c3[i] = product0;
    }
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
  for (int i = 0; i < kVectors; ++i) {
    constexpr uint64_t kLower = 0xFFFFFFFF;
    const Vector first = (c0[i] & kLower) | (c1[i] << 32), second = (c2[i] & kLower) | (c3[i] << 32);
    uint64_t words[2 * kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      words[2 * lane] = first[lane];
      words[2 * lane + 1] = second[lane];
    }
    std::memcpy(out + 4 * i * kLanes, words, sizeof words);
  }
}

[[gnu::flatten, gnu::target("avx2")]] void blocks_avx2(uint32_t* out, const PhiloxCounter& counter,
                                                       const PhiloxKey& key) {
  blocks_of<Avx2>(out, counter, key);
}

[[gnu::flatten, gnu::target("avx512f")]] void blocks_avx512(uint32_t* out, const PhiloxCounter& counter,
                                                            const PhiloxKey& key) {
  blocks_of<Avx512>(out, counter, key);
}

#endif

}  // namespace

void philox_blocks(InstructionSet set, uint32_t* out, const PhiloxCounter& counter, const PhiloxKey& key) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) return blocks_avx512(out, counter, key);
  if (set == InstructionSet::avx2) return blocks_avx2(out, counter, key);
#endif
  blocks_baseline(out, counter, key);
}

}  // namespace adjoin
