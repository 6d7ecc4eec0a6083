#pragma once

#include <optional>

#include "adjoin/comm/where.hpp"

namespace adjoin {

/// While it lives, calls of communicators on this thread are named by the place of the one who asked for them, and not by the
/// file of the movement that makes them. Of several the outermost counts.
class CallSite {
 public:
  using Where = adjoin::Where;

  explicit CallSite(const std::optional<Where>& where) : is_outermost_(!current_ && where) {
    if (is_outermost_) current_ = where;
  }
  ~CallSite() {
    if (is_outermost_) current_.reset();
  }
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;

  static const std::optional<Where>& current() { return current_; }

 private:
  static inline thread_local std::optional<Where> current_;
  bool is_outermost_;
};

}  // namespace adjoin
