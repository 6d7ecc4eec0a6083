#include "adjoin/comm/threads/call.hpp"

namespace adjoin::threads {

uint64_t hash_of(std::span<const int64_t> counts) {
  uint64_t hash = counts.size();
  for (const int64_t count : counts) {
    hash = (hash ^ static_cast<uint64_t>(count)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

std::string describe(const Call& call) {
  return call.operation ? adjoin::describe(*call.operation) : std::string(name(call.signature.collective));
}

}  // namespace adjoin::threads
