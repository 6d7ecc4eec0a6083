#pragma once

#include <cstdint>
#include <cstdlib>

namespace adjoin::test {

/// How many times as many random cases to try as for every change: the environment's ADJOIN_TEST_SCALE, 1 without it.
inline int64_t scale() {
  const char* text = std::getenv("ADJOIN_TEST_SCALE");
  return text != nullptr && *text != '\0' ? std::strtoll(text, nullptr, 10) : 1;
}

}  // namespace adjoin::test
