#pragma once

#include <atomic>

namespace adjoin {

/// Whether the calling thread works in place of a rank's thread, which waits until it is done; it may then use that rank's
/// communicators. Set by what knows of such threads; null: there are none.
inline std::atomic<bool (*)()> stands_in = nullptr;

}  // namespace adjoin
