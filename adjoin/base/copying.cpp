#include "adjoin/base/copying.hpp"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace adjoin {

namespace {

constexpr int64_t kLine = 64;

/// Half of a usual last cache of 32 MiB, as what was read is there too. What the system says of its size is of the whole
/// processor where this is a virtual machine on some of its cores.
constexpr int64_t kCachedBytes = 16 << 20;

}  // namespace

void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

#if defined(__SSE2__)

void stream_part(void* to, const void* from, int64_t bytes) {
  if (to == from || bytes <= 0) return;
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from);
  const auto misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) % kLine);
  const int64_t head = std::min(bytes, (kLine - misaligned) % kLine);
  copy_bytes(out, in, head);
  int64_t done = head;
  for (; done + kLine <= bytes; done += kLine) {
    __m128i line[4];
    for (int i = 0; i < 4; ++i) line[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + done) + i);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(out + done) + i, line[i]);
  }
  copy_bytes(out + done, in + done, bytes - done);
}

void finish_streaming() {
  _mm_sfence();
}

#else

void stream_part(void* to, const void* from, int64_t bytes) {
  copy_bytes(to, from, bytes);
}

void finish_streaming() {}

#endif

void stream_bytes(void* to, const void* from, int64_t bytes) {
  stream_part(to, from, bytes);
  finish_streaming();
}

Copy copy_for(int64_t bytes_of_all) {
  return bytes_of_all > kCachedBytes ? stream_bytes : copy_bytes;
}

}  // namespace adjoin
