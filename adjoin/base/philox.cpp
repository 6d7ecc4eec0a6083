#include "adjoin/base/philox.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

#include "adjoin/base/hash.hpp"
#include "adjoin/base/philox_blocks.hpp"

namespace adjoin {

PhiloxCounter philox(PhiloxCounter c, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kPhiloxMultiplier0) * c[0];
    const uint64_t product1 = static_cast<uint64_t>(kPhiloxMultiplier1) * c[2];
    c = {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
  return c;
}

PhiloxKey philox_key(uint64_t seed, std::string_view name) {
  const uint64_t key = mix(mix(seed + 0x9E3779B97F4A7C15ull) ^ hash_of(name));
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

void philox_row(std::span<uint16_t> out, PhiloxKey key, uint32_t first_column, uint32_t row, uint32_t plane,
                uint32_t volume) {
  static_assert(std::endian::native == std::endian::little, "a word of 32 bits is two of 16, the lower first");
  constexpr size_t kWordsPerBlock = 2 * kPhiloxWords;
  uint32_t words[kPhiloxLanes * kPhiloxWords];
  const InstructionSet set = best_instruction_set();
  uint32_t block = first_column / kWordsPerBlock;
  size_t skip = first_column % kWordsPerBlock;
  for (size_t done = 0; done < out.size(); block += kPhiloxLanes, skip = 0) {
    philox_blocks(set, words, {block, row, plane, volume}, key);
    const size_t n = std::min(kPhiloxLanes * kWordsPerBlock - skip, out.size() - done);
    std::memcpy(out.data() + done, reinterpret_cast<const uint16_t*>(words) + skip, n * sizeof(uint16_t));
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
      for (int pair = 0; pair < 2; ++pair) {  // the added half keeps the logarithm's argument above zero
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
