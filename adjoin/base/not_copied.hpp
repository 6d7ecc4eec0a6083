#pragma once

namespace adjoin {

/// A base of classes whose objects are neither copied nor moved.
struct NotCopied {
  NotCopied() = default;
  NotCopied(const NotCopied&) = delete;
  NotCopied& operator=(const NotCopied&) = delete;
};

}  // namespace adjoin
