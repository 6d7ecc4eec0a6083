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
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = static_cast<int32_t>(bits & 0x7fffffffu) > 0x7f800000;  // a NaN must not round to infinity
  return {static_cast<uint16_t>(is_nan ? 0x7fc0u : rounded)};
}

// All cases are computed and one is selected, so that loops over these functions are vectorised.

inline float to_float(Float16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(x.bits & 0x7fffu) << 13;
  // The bits of a binary16, read as a float32 with the exponent in place, give a value too small by 2^112; the product
  // also corrects subnormals.
  const uint32_t number = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t infinity_or_nan = 0x7f800000u | magnitude;
  return std::bit_cast<float>(sign | (magnitude >= 0x0f800000u ? infinity_or_nan : number));
}

inline Float16 to_float16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const auto magnitude = static_cast<int32_t>(bits & 0x7fffffffu);
  // Below 2^-14: adding 0.5 leaves the rounded subnormal in the low bits.
  const int32_t subnormal = std::bit_cast<int32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  const int32_t rebiased = magnitude - (112 << 23);
  const int32_t normal = (rebiased + 0xfff + ((rebiased >> 13) & 1)) >> 13;
  int32_t result = magnitude < 0x38800000 ? subnormal : normal;
  result = magnitude >= 0x477ff000 ? 0x7c00 : result;  // rounds beyond 65504
  result = magnitude > 0x7f800000 ? 0x7e00 : result;   // NaN
  return {static_cast<uint16_t>(sign | static_cast<uint32_t>(result))};
}

}  // namespace adjoin
