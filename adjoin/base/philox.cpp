#include "adjoin/base/philox.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "adjoin/base/hash.hpp"

// Several copies of a loop, one for each instruction set, chosen when the program starts. The sanitizers' run-time is
// not ready yet when the choice is made, so they get the plain form.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define ADJOIN_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ADJOIN_VECTORISED
#endif

namespace adjoin {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;  // the constants of the paper's table 2
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

inline void philox_round(uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3, uint32_t k0, uint32_t k1) {
  const uint64_t product0 = static_cast<uint64_t>(kMultiplier0) * c0;
  const uint64_t product1 = static_cast<uint64_t>(kMultiplier1) * c2;
  c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
  c1 = static_cast<uint32_t>(product1);
  c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
  c3 = static_cast<uint32_t>(product0);
}

constexpr int kLanes = 16;  // blocks computed side by side
constexpr int kWordsPerBlock = 8;

/// Blocks first, first + 1, … first + kLanes - 1 of a row, one in each lane.
ADJOIN_VECTORISED void philox_lanes(uint16_t* out, uint32_t k0, uint32_t k1, uint32_t first, uint32_t row,
                                    uint32_t plane, uint32_t volume) {
  uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    c0[i] = first + static_cast<uint32_t>(i);
    c1[i] = row;
    c2[i] = plane;
    c3[i] = volume;
  }
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kLanes; ++i) philox_round(c0[i], c1[i], c2[i], c3[i], k0, k1);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  for (int i = 0; i < kLanes; ++i) {
    uint16_t* words = out + i * kWordsPerBlock;
    words[0] = static_cast<uint16_t>(c0[i]);
    words[1] = static_cast<uint16_t>(c0[i] >> 16);
    words[2] = static_cast<uint16_t>(c1[i]);
    words[3] = static_cast<uint16_t>(c1[i] >> 16);
    words[4] = static_cast<uint16_t>(c2[i]);
    words[5] = static_cast<uint16_t>(c2[i] >> 16);
    words[6] = static_cast<uint16_t>(c3[i]);
    words[7] = static_cast<uint16_t>(c3[i] >> 16);
  }
}

}  // namespace

PhiloxCounter philox(PhiloxCounter c, PhiloxKey key) {
  for (int round = 0; round < kRounds; ++round) {
    philox_round(c[0], c[1], c[2], c[3], key[0], key[1]);
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return c;
}

PhiloxKey philox_key(uint64_t seed, std::string_view name) {
  const uint64_t key = mix(mix(seed + 0x9E3779B97F4A7C15ull) ^ hash_of(name));
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

void philox_row(std::span<uint16_t> out, PhiloxKey key, uint32_t first_column, uint32_t row, uint32_t plane,
                uint32_t volume) {
  constexpr size_t kWords = kLanes * kWordsPerBlock;
  uint16_t words[kWords];
  uint32_t block = first_column / kWordsPerBlock;
  size_t skip = first_column % kWordsPerBlock;
  for (size_t done = 0; done < out.size(); block += kLanes, skip = 0) {
    if (skip == 0 && out.size() - done >= kWords) {
      philox_lanes(out.data() + done, key[0], key[1], block, row, plane, volume);
      done += kWords;
      continue;
    }
    philox_lanes(words, key[0], key[1], block, row, plane, volume);
    const size_t n = std::min(kWords - skip, out.size() - done);
    std::copy_n(words + skip, n, out.data() + done);
    done += n;
  }
}

void philox_normal(std::span<double> out, PhiloxKey key, int64_t first) {
  constexpr double kScale = 0x1p-32;
  int64_t have = -1;
  double normal[4] = {};
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t index = first + static_cast<int64_t>(i);
    if (index / 4 != have) {
      have = index / 4;
      const PhiloxCounter w =
          philox({static_cast<uint32_t>(have), static_cast<uint32_t>(static_cast<uint64_t>(have) >> 32), 0, 0}, key);
      for (int pair = 0; pair < 2; ++pair) {  // the half keeps the logarithm's argument away from zero
        const double radius = std::sqrt(-2.0 * std::log((w[2 * pair] + 0.5) * kScale));
        const double angle = 2.0 * std::numbers::pi * w[2 * pair + 1] * kScale;
        normal[2 * pair] = radius * std::cos(angle);
        normal[2 * pair + 1] = radius * std::sin(angle);
      }
    }
    out[i] = normal[index % 4];
  }
}

}  // namespace adjoin
