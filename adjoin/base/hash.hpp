#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace adjoin {

// Hashes that are the same in every process and on every machine, which std::hash does not promise.

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): each bit of the result depends on every bit of `x`.
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// FNV-1a of 64 bits.
constexpr uint64_t hash_of(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// A hash of numbers, their order and their count. One multiplication by the golden ratio for each number: a few nanoseconds
/// for the counts of a few ranks, which each collective with counts hashes.
template <class Number>
constexpr uint64_t hash_of(std::span<const Number> numbers, uint64_t seed = 0) {
  uint64_t hash = seed ^ numbers.size();
  for (const Number number : numbers) {
    hash = (hash ^ static_cast<uint64_t>(number)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace adjoin
