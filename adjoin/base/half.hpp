#pragma once

#include <bit>
#include <cstdint>

namespace adjoin {

/// IEEE 754 binary16, stored as its bits. Conversions round to nearest, ties to even.
struct Float16 {
  uint16_t bits = 0;
};

/// The upper half of a float32, stored as its bits. Conversions round to nearest, ties to even.
struct BFloat16 {
  uint16_t bits = 0;
};

inline float to_float(BFloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

inline BFloat16 to_bfloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fc0};  // a NaN must not round to infinity
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline float to_float(Float16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // A binary16 read as a float32 with the exponent in place is too small by 2^112; the product also mends subnormals.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f));
}

inline Float16 to_float16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // rounds beyond 65504
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 leaves the rounded subnormal in the low bits
    const uint32_t rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f);
    return {static_cast<uint16_t>(sign | (rounded - 0x3f000000u))};
  }
  const uint32_t rebiased = magnitude - (112u << 23);
  return {static_cast<uint16_t>(sign | ((rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13))};
}

}  // namespace adjoin
