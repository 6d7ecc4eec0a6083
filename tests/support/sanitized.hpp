#pragma once

namespace adjoin::testing {

/// Whether a sanitizer was compiled in, with which all is some ten times as slow: enumerations then try a part.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace adjoin::testing
